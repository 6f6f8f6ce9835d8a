"""The sidecar as a process of its own, started by `python -m sidecar serve --config`."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx

from subagents_client import ClientTimeouts, SidecarClient
from tests.support.plain_http import plain_client

ROOT: Final = Path(__file__).parents[2]
START_SECONDS: Final = 180.0
END_SECONDS: Final = 180.0
PATIENT: Final = ClientTimeouts(bind=timedelta(seconds=30), unary=timedelta(seconds=30), most_attempts=60)
"""A new process on a busy machine may take longer for its first answer than a user would wait.

gRPC lets channels with one target share their connection, so a new client also waits out the pause that the
connection of an earlier client makes before it connects again: up to a second.
"""
SETTINGS: Final = """
[server]
dispatch_socket = "{folder}/dispatch/sidecar.sock"
agents_socket = "{folder}/agents/sidecar.sock"
boot_secret_file = "{folder}/dispatch/boot-secret"
ops_address = "127.0.0.1:0"
lame_duck = "0s"

[record.sqlite]
path = "{folder}/record/record.sqlite"

[definitions]
path = "{folder}/config"
git_commits = false
expected = ["support"]

[dispatch]
fan_out_cap = 3

[targets.slots]
shop = "unix:{folder}/shop.sock"
rewards = "unix:{folder}/rewards.sock"
support = "unix:{folder}/support.sock"

[log]
format = "json"
"""


async def next_look() -> None:
    """Let a moment pass: there is nobody who tells of what can only be asked for."""
    moment = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, moment.set)
    await moment.wait()


@contextmanager
def place() -> Iterator[Path]:
    """Give a folder with a name short enough for sockets, with the example definitions in `config`."""
    with tempfile.TemporaryDirectory(prefix="sidecar-") as name:
        shutil.copytree(ROOT / "examples" / "config", Path(name) / "config")
        yield Path(name)


def settings_file(folder: Path, more: str = "") -> Path:
    """Write settings whose every address lies in `folder`, with `more` at the end; return the file.

    The example's sub-agents name no flag; they serve from the start.
    """
    file = folder / "sidecar.toml"
    more = more if "[rollout]\n" in more else f"{more}\n[rollout]\n"
    more = more.replace("[rollout]\n", "[rollout]\nauto_promote_unflagged = true\n")
    file.write_text(SETTINGS.format(folder=folder) + more, encoding="utf-8")
    return file


@dataclass(slots=True)
class SidecarProcess:
    """A started process, and every line it has written.

    Attributes:
        lines: raw.
        events: those lines that are JSON.
    """

    process: asyncio.subprocess.Process
    folder: Path
    lines: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def read(self) -> None:
        """Take in lines until the process ends."""
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode()
            async with self._news:
                self.lines.append(line)
                if line.startswith("{"):
                    self.events.append(json.loads(line))
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    async def event(self, name: str, is_it: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """Return the first logged event of that name, waiting for it."""
        async with self._news, asyncio.timeout(START_SECONDS):
            await self._news.wait_for(lambda: self._find(name, is_it) is not None or self._over())
        found = self._find(name, is_it)
        assert found is not None, f"it ended without {name}:\n{self.text}"
        return found

    def _find(self, name: str, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        return next((one for one in self.events if one["event"] == name and is_it(one)), None)

    def _over(self) -> bool:
        return self.process.stderr is not None and self.process.stderr.at_eof()

    @property
    def text(self) -> str:
        """Everything it has written."""
        return "".join(self.lines)

    @property
    def boot_secret(self) -> str:
        """What the dispatch socket asks for."""
        return (self.folder / "dispatch" / "boot-secret").read_text().strip()

    @property
    def dispatch_target(self) -> str:
        """The dispatch socket as a gRPC target."""
        return f"unix:{self.folder}/dispatch/sidecar.sock"

    def client(self, timeouts: ClientTimeouts = PATIENT) -> SidecarClient:
        """Return a client with the boot secret; unless told otherwise it waits longer than usual for an answer."""
        return SidecarClient.connect(self.dispatch_target, boot_secret=self.boot_secret, timeouts=timeouts)

    async def page(self, path: str, **headers: str) -> httpx.Response:
        """Return a page of the ops address."""
        address = (await self.event("sidecar.listening"))["ops_address"]
        async with plain_client() as client:
            return await client.get(f"http://{address}{path}", headers=headers)

    async def metrics_show(self, line: str) -> None:
        """Wait until the metrics page, which is made at most once a second, has this line."""
        async with asyncio.timeout(END_SECONDS):
            while line not in (await self.page("/metrics")).text.splitlines():
                await next_look()

    def signal(self, which: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(which)

    async def ended(self) -> int:
        """Wait for its end; return its exit code."""
        async with asyncio.timeout(END_SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def started(
    folder: Path,
    *,
    more: str = "",
    environment: Mapping[str, str] | None = None,
    python: Sequence[str] = (),
    files: int | None = None,
    interpreter: Path | None = None,
) -> AsyncIterator[SidecarProcess]:
    """Start a sidecar whose files lie in `folder`; what is left of it at the end is killed.

    Args:
        folder: of settings, definitions and sockets.
        more: settings.
        environment: variables beside those of this process.
        python: options of the interpreter.
        files: how many file descriptors it may have; None: as many as this process.
        interpreter: of another environment, in which the sidecar is installed; None: this one.
    """
    process = await asyncio.create_subprocess_exec(
        *(() if files is None else ("/bin/sh", "-c", 'ulimit -n "$0" && exec "$@"', str(files))),
        *(
            str(interpreter or sys.executable),
            *python,
            "-m",
            "sidecar",
            "serve",
            "--config",
            str(settings_file(folder, more)),
        ),
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT if interpreter is None else folder,  # so that nothing of the repository is imported there
        env={**os.environ, **(environment or {})},
        limit=1024 * 1024,
    )
    running = SidecarProcess(process, folder)
    reading = asyncio.create_task(running.read())
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


@asynccontextmanager
async def serving(
    folder: Path, *, more: str = "", environment: Mapping[str, str] | None = None
) -> AsyncIterator[SidecarProcess]:
    """Start a sidecar and wait until it takes turns."""
    async with started(folder, more=more, environment=environment) as sidecar:
        await sidecar.event("sidecar.readiness")
        yield sidecar
