"""Computations beside the event loop."""

import asyncio
import threading

import pytest

from sidecar.adapters.system import OffLoop


async def test_the_loop_goes_on_while_a_computation_runs() -> None:
    """A computation that waits for something which only the loop does: it ends, and its result comes back."""
    off_loop, begun, told = OffLoop(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> bool:
        loop.call_soon_threadsafe(begun.set)
        return told.wait(5)

    running = asyncio.ensure_future(off_loop(work))
    await begun.wait()
    told.set()

    assert await running is True
    off_loop.close()


async def test_what_a_computation_raises_reaches_its_caller() -> None:
    """A ValueError in the thread is a ValueError here."""
    off_loop = OffLoop()

    with pytest.raises(ValueError, match="not a number"):
        await off_loop(_refuse)
    off_loop.close()


def _refuse() -> int:
    raise ValueError("not a number")
