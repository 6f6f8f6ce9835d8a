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

from scripts.benchmark.serving import READY

REPOSITORY: Final = Path(__file__).resolve().parent.parent.parent
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0
_SCHEDULER_CLOCK: Final = 2


class ServerLost(Exception):
    """A measured server did not start, or is gone."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    pid: int
    channel: grpc.aio.Channel

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads so far, in user and kernel mode."""
        return time.clock_gettime((~self.pid << 3) | _SCHEDULER_CLOCK)


@asynccontextmanager
async def running(module: str, socket: Path, arguments: Sequence[str]) -> AsyncIterator[Server]:
    """Start `python -m scripts.benchmark.<module>`, connect, and stop it afterwards.

    Raises:
        ServerLost: it did not come up; what it said is on standard error.
    """
    command = [sys.executable, "-m", f"scripts.benchmark.{module}", "--socket", str(socket), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        await _ready(process, module)
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            yield Server(process.pid, channel)
    finally:
        await _stop(process)


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
