"""A console in this process, in front of a sidecar, and a browser without scripts that visits it.

async with an_operated_sidecar() as bench, a_console(bench) as visitor:
    await visitor.sign_in(bench.token())
    page = await visitor.get("/now")
"""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import httpx

from sidecar.cli.console.serving import ConsoleOptions, console_server
from tests.support.operated_process import free_port
from tests.support.operators import OperatedSidecar

HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser. `address`: of the console."""

    address: str
    client: httpx.AsyncClient

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Open a page."""
        return await self.client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Post a form."""
        return await self.client.post(path, data=fields, headers=headers)

    async def sign_in(self, token: str) -> httpx.Response:
        """Sign in with a token."""
        form = await self.get("/sign-in")
        return await self.post("/sign-in", hidden(form) | {"token": token})

    async def take(self, path: str, **fields: str) -> httpx.Response:
        """Open the form of a step, fill it and send it."""
        return await self.post(path, hidden(await self.get(path)) | {"do": "take"} | fields)


def hidden(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of the last form of a page, which is the one in its middle."""
    form = page.text.rpartition('<form method="post"')[2]
    return {name: html.unescape(value) for name, value in HIDDEN.findall(form)}


@asynccontextmanager
async def a_console(bench: OperatedSidecar, targets: Sequence[str] = (), **options: Any) -> AsyncIterator[Visitor]:
    """Serve a console in front of a sidecar, or of other `targets`."""
    own = f"unix:{bench.sidecar.folder / 'operators.sock'}"
    async with served(ConsoleOptions(tuple(targets) or (own,), f"127.0.0.1:{await free_port()}", **options)) as visitor:
        yield visitor


@asynccontextmanager
async def served(options: ConsoleOptions, **client: Any) -> AsyncIterator[Visitor]:
    """Serve a console until the context ends."""
    server, address = console_server(options)
    started = asyncio.Event()
    server.on_started = started.set
    vars(server)["capture_signals"] = nullcontext  # the signals of the tests stay theirs
    running = asyncio.ensure_future(server.serve())
    await started.wait()
    try:
        async with httpx.AsyncClient(base_url=address, trust_env=False, **client) as opened:
            yield Visitor(address.rstrip("/"), opened)
    finally:
        server.should_exit = True
        await running
