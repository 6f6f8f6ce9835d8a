"""What both measured servers have in common: a core of their own, uvloop, and an end when the bench ends."""

import asyncio
import os
import sys
from contextlib import AbstractAsyncContextManager
from cProfile import Profile
from pathlib import Path

import uvloop

READY = "ready"
"""The line that a server writes on its standard output once it listens."""


def pin(cpu: int | None) -> None:
    """Keep this process on one core; None: leave it to the system."""
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})


def serve(server: AbstractAsyncContextManager[object], cpu: int | None, profile: Path | None = None) -> None:
    """Run `server` until standard input ends, which it also does when the bench dies.

    Args:
        server: listens once it is entered.
        cpu: the core to stay on.
        profile: where to write a profile of everything between start and end; None: none is taken.
    """
    pin(cpu)
    if profile is None:
        uvloop.run(_until_input_ends(server))
        return
    profiler = Profile()
    profiler.runcall(uvloop.run, _until_input_ends(server))
    profiler.dump_stats(profile)


async def _until_input_ends(server: AbstractAsyncContextManager[object]) -> None:
    ended = asyncio.Event()
    async with server:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
        print(READY, flush=True)
        await ended.wait()
