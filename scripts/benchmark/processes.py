"""Starts the measured servers and reads what they use."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from scripts.benchmark.revisions import Revision
from scripts.benchmark.serving import READY

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
LONGEST_LINE: Final = 4 * 1024 * 1024
"""Bytes of an answer: thousands of latencies as JSON."""
_SCHEDULER_CLOCK: Final = 2


class ServerLost(Exception):
    """A measured server did not start, or is gone."""


class Process:
    """A measured process that is ready."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Take a process whose standard input and output are pipes."""
        self._process = process

    @property
    def pid(self) -> int:
        """Return its number."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads so far, in user and kernel mode."""
        return cpu_seconds(self.pid)

    async def ask(self, line: str) -> str:
        """Write a line to it and return the line it answers with; empty: it has ended."""
        assert self._process.stdin is not None  # noqa: S101  for the type checker: a pipe by the constructor's word
        assert self._process.stdout is not None  # noqa: S101  for the type checker: as above
        try:
            self._process.stdin.write(f"{line}\n".encode())
            await self._process.stdin.drain()
        except ConnectionError:
            return ""
        return (await self._process.stdout.readline()).decode()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    pid: int
    channel: grpc.aio.Channel

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads so far, in user and kernel mode."""
        return cpu_seconds(self.pid)


@asynccontextmanager
async def running(
    module: str, socket: Path, arguments: Sequence[str], revision: Revision | None = None
) -> AsyncIterator[Server]:
    """Start `python -m scripts.benchmark.<module>`, connect, and stop it afterwards.

    Raises:
        ServerLost: it did not come up; what it said is on standard error.
    """
    async with (
        started(module, ["--socket", str(socket), *arguments], revision) as process,
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        yield Server(process.pid, channel)


@asynccontextmanager
async def started(module: str, arguments: Sequence[str], revision: Revision | None = None) -> AsyncIterator[Process]:
    """Start `python -m scripts.benchmark.<module>`, wait until it is ready, and stop it afterwards.

    Args:
        module: of this tree, or of another revision's.
        arguments: of its command line.
        revision: whose programs and packages run; None: those of this tree.

    Raises:
        ServerLost: it did not come up; what it said is on standard error.
    """
    command = [sys.executable, "-m", f"scripts.benchmark.{module}", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=REPOSITORY if revision is None else revision.tree,
        env=None if revision is None else revision.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=LONGEST_LINE,
    )
    try:
        await _ready(process, module)
        yield Process(process)
    finally:
        await _stop(process)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process so far, in user and kernel mode."""
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)


async def _ready(process: asyncio.subprocess.Process, module: str) -> None:
    assert process.stdout is not None  # noqa: S101  for the type checker: it was asked for above
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if line.decode().strip() != READY:
        raise ServerLost(f"{module} did not start; it said: {line.decode().strip() or 'nothing'}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End its input, which ends it; kill it if it does not go."""
    assert process.stdin is not None  # noqa: S101  for the type checker: it was asked for above
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
