"""Computations beside the event loop."""

import asyncio
import sys
import threading

import pytest

from sidecar.adapters.system import OffLoop
from sidecar.adapters.system.tasks import SWITCH_SECONDS


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


async def test_the_loop_gets_the_interpreter_sooner_while_a_computation_runs() -> None:
    """With the usual interval a bind would wait 5 ms at each of its system calls; afterwards that is back."""
    off_loop, usual = OffLoop(), sys.getswitchinterval()

    assert await off_loop(sys.getswitchinterval) == pytest.approx(SWITCH_SECONDS)
    assert usual > 10 * SWITCH_SECONDS
    with pytest.raises(ValueError, match="not a number"):
        await off_loop(_refuse)

    assert sys.getswitchinterval() == usual
    off_loop.close()
