"""The processes of the demo: each in a group of its own, its log in a file, and none of them left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

ROOT: Final = Path(__file__).parents[2]
PATIENCE: Final = 2.0
"""How long a process may drain after SIGTERM before it is told to hurry."""
STOP_SECONDS: Final = 5.0
"""How long it may take to end then."""
START_SECONDS: Final = 30.0
LOOK_EVERY: Final = 0.05
TAIL: Final = 25
"""Last lines of a log that are shown if a process fails."""


@dataclass(frozen=True, slots=True)
class Running:
    """One process; `log` has its standard output and error."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        """Its id, which is its group's too."""
        return self.process.pid

    def tail(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL:])


class StartFailed(Exception):
    """A process ended, or did not become ready. Has the process, so that its log can be shown."""

    def __init__(self, running: Running, why: str) -> None:
        super().__init__(f"{running.name} {why}")
        self.running = running


class Processes:
    """What the demo started. Leaving the `async with` stops all of it, the newest first.

    Args:
        folder: for the logs; it must exist.
        temporary: whether the watchdog removes the folder if the demo is killed.
    """

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        self._folder = folder
        self._temporary = temporary
        self._running: list[Running] = []
        self._watchdog: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self._watchdog = subprocess.Popen(  # noqa: ASYNC220  # our own module; returns once it was forked
            [sys.executable, "-m", "examples.demo.watchdog"], cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
        )
        if self._temporary:
            self._tell(f"folder {self._folder}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for running in reversed(self._running):
                await stop(running)
        finally:  # a second Ctrl-C: at once then
            for running in self._running:
                _signal_group(running, signal.SIGKILL)
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._tell("done")
            with suppress(BrokenPipeError):
                self._watchdog.stdin.close()
            await asyncio.to_thread(self._watchdog.wait)

    @property
    def pids(self) -> Mapping[str, int]:
        """Process ids by name."""
        return {running.name: running.pid for running in self._running}

    def ended(self) -> Running | None:
        """Return a process that has ended by itself, if there is one."""
        return next((running for running in self._running if running.process.returncode is not None), None)

    async def start(self, name: str, arguments: Sequence[str], folder: Path = ROOT) -> Running:
        """Start `python <arguments>` in a folder; its output goes to `<name>.log`."""
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        running = Running(name, process, log)
        self._running.append(running)
        self._tell(f"group {process.pid}")
        return running

    def _tell(self, line: str) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with suppress(BrokenPipeError):
                self._watchdog.stdin.write(f"{line}\n".encode())
                self._watchdog.stdin.flush()


async def ready(running: Running, is_ready: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a process is ready.

    Raises:
        StartFailed: it ended, or was not ready after `START_SECONDS`.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await is_ready():
                if running.process.returncode is not None:
                    raise StartFailed(running, f"ended with exit code {running.process.returncode}")
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        raise StartFailed(running, f"was not ready after {START_SECONDS:g} s") from None


async def stop(running: Running) -> None:
    """Send SIGTERM, wait, send it again as a request to hurry, and send SIGKILL to whatever is left of the group."""
    for seconds in (PATIENCE, STOP_SECONDS):
        _signal_group(running, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(running.process.wait(), seconds)
            break
    _signal_group(running, signal.SIGKILL)
    await running.process.wait()


def _signal_group(running: Running, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(running.pid, number)
