"""A real Chromium, driven over the DevTools protocol through a pipe: no port, no driver, no library.

async with chromium() as browser:
    page = await browser.page()
    await page.open("http://127.0.0.1:8700/")
"""

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.support.named_skips import needs_tool

OPTIONS: Final = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-proxy-server",
    "--password-store=basic",
    "--force-device-scale-factor=1",
)
PIPES: Final = (
    "import fcntl, os, sys\n"
    "ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]\n"
    "[os.dup2(end, number) for number, end in enumerate(ends, 3)]\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)
"""Chromium reads commands from 3 and writes to 4."""
LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one message; a screenshot is one."""
PATIENCE: Final = 120.0
MARGIN: Final = 8
"""Pixels around an element on its screenshot."""


class PageError(Exception):
    """What the browser says that went wrong."""


class Page:
    """One tab. `console`: what it logged as an error, violations of the content policy included."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self.console: list[str] = []
        self._browser, self._session = browser, session
        self._loaded = asyncio.Event()

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        return await self._browser.call(method, self._session, **parameters)

    async def open(self, address: str) -> None:
        """Open a page, and wait until it has loaded."""
        self._loaded.clear()
        await self.call("Page.navigate", url=address)
        await asyncio.wait_for(self._loaded.wait(), PATIENCE)

    async def follows(self, doing: Awaitable[Any]) -> None:
        """Do what leads to another page, and wait until that has loaded."""
        self._loaded.clear()
        await doing
        await asyncio.wait_for(self._loaded.wait(), PATIENCE)

    async def evaluate(self, expression: str) -> Any:
        """Return what an expression comes to, promises included."""
        answer = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until an expression is true, looking whenever the page changes."""
        look = f"const look = () => {{ if ({condition}) {{ watch.disconnect(); done(); }} }};"
        watch = "const watch = new MutationObserver(look);"
        observe = "watch.observe(document, {childList: true, subtree: true, attributes: true, characterData: true});"
        promise = f"new Promise((done) => {{ {look} {watch} {observe} look(); }})"
        await asyncio.wait_for(self.evaluate(promise), PATIENCE)

    async def press(self, key: str, times: int = 1, *, shift: bool = False) -> None:
        """Press a key of the keyboard."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        code = {"Enter": 13, "Tab": 9, " ": 32}[key]
        for _ in range(times):
            given = {"key": key, "windowsVirtualKeyCode": code, "text": text, "modifiers": 8 if shift else 0}
            await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **given)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    async def type(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def looks(self, width: int, height: int, scheme: str) -> None:
        """Set the size of the window, and the colour scheme that its user prefers."""
        mobile = width < 600
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, selector: str = "") -> bytes:
        """Return the whole page as PNG, or the first element that a selector finds, with a margin."""
        cut: dict[str, Any] = {}
        if selector:
            edges = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
            box = json.loads(await self.evaluate(f"JSON.stringify({edges})"))
            top = await self.evaluate("window.scrollY")
            wide, high = box["width"] + 2 * MARGIN, box["height"] + 2 * MARGIN
            place = {"x": max(0, box["x"] - MARGIN), "y": max(0, box["y"] + top - MARGIN)}
            cut = {"clip": {**place, "width": wide, "height": high, "scale": 1}}
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **cut)
        return base64.b64decode(answer["data"])

    def told(self, method: str, parameters: dict[str, Any]) -> None:
        """Take an event of the tab in."""
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in {"error", "warning"}:
            self.console.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.console.append(parameters["exceptionDetails"]["text"])


class Browser:
    """A running Chromium."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader, self._writer = reader, writer
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._pages: dict[str, Page] = {}

    async def page(self) -> Page:
        """Open a tab in a profile of its own."""
        context = (await self.call("Target.createBrowserContext"))["browserContextId"]
        target = (await self.call("Target.createTarget", url="about:blank", browserContextId=context))["targetId"]
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        return page

    async def call(self, method: str, session: str = "", /, **parameters: Any) -> Any:
        """Call a method of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps(message).encode() + b"\0")
        return await asyncio.wait_for(answer, PATIENCE)

    async def read(self) -> None:
        """Read until Chromium ends."""
        while True:
            try:
                message = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            except asyncio.IncompleteReadError:
                return
            if "id" not in message:
                page = self._pages.get(message.get("sessionId", ""))
                if page is not None:
                    page.told(message["method"], message["params"])
            elif (waiting := self._waiting.pop(message["id"], None)) is not None and not waiting.done():
                if "error" in message:
                    waiting.set_exception(PageError(str(message["error"])))
                else:
                    waiting.set_result(message["result"])


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start one with an empty profile, and end it."""
    program = needs_tool("chromium")
    loop = asyncio.get_running_loop()
    (read_end, our_write), (our_read, write_end) = os.pipe(), os.pipe()
    profile = tempfile.mkdtemp(prefix="chromium")
    options = [*OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--user-data-dir={profile}", "about:blank"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PIPES, str(read_end), str(write_end), program, *options),
        pass_fds=(read_end, write_end),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": profile},
    )
    os.close(read_end)
    os.close(write_end)
    reader = asyncio.StreamReader(limit=LARGEST)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_read, "rb"))
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(our_write, "wb"))
    browser = Browser(reader, writing)
    events = asyncio.ensure_future(browser.read())
    try:
        yield browser
        await browser.call("Browser.close")
        await asyncio.wait_for(process.wait(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await events
        writing.close()
        reading.close()
        await asyncio.to_thread(shutil.rmtree, profile, ignore_errors=True)


def png_files(folder: Path) -> set[str]:
    """Return the names of the screenshots in a folder."""
    return {each.name for each in folder.glob("*.png")}
