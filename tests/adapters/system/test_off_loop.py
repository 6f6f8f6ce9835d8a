"""Computations beside the event loop."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Final

import pytest

from sidecar.adapters.system import OffLoop
from sidecar.adapters.system.tasks import SWITCH_SECONDS

USUAL: Final = 0.005
"""Seconds; Python's default."""


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


@pytest.fixture
def usual() -> Iterator[float]:
    """The interval of a process without plugins in threads, which shorten it, too; other tests may have made some."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


async def test_the_loop_gets_the_interpreter_sooner_while_a_computation_runs(usual: float) -> None:
    """With the usual interval a bind would wait 5 ms at each of its system calls; afterwards that is back."""
    off_loop = OffLoop()

    assert await off_loop(sys.getswitchinterval) == pytest.approx(SWITCH_SECONDS)
    with pytest.raises(ValueError, match="not a number"):
        await off_loop(_refuse)

    assert sys.getswitchinterval() == usual
    off_loop.close()


async def test_computations_that_overlap_leave_the_usual_interval_behind(usual: float) -> None:
    """The first one ends while the second one, which found the short interval, still runs."""
    one, two = OffLoop(), OffLoop()
    begun, first_may_end, second_may_end = (threading.Event() for _ in range(3))

    def second() -> bool:
        begun.set()
        return second_may_end.wait(5)

    first_runs = asyncio.ensure_future(one(lambda: first_may_end.wait(5)))
    second_runs = asyncio.ensure_future(two(second))
    assert await asyncio.to_thread(begun.wait, 5)
    first_may_end.set()
    assert await first_runs
    second_may_end.set()
    assert await second_runs

    assert sys.getswitchinterval() == usual
    one.close()
    two.close()
