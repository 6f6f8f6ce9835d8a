"""Computations beside the event loop."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from sidecar.adapters.plugin_threads.thread import PluginThread
from sidecar.adapters.switch_interval import SWITCH_SECONDS, ShortSwitchInterval
from sidecar.adapters.system import OffLoop

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


async def test_the_loop_gets_the_interpreter_sooner_while_a_computation_runs() -> None:
    """With the usual interval a bind would wait 5 ms at each of its system calls."""
    off_loop = OffLoop()

    assert await off_loop(sys.getswitchinterval) == pytest.approx(SWITCH_SECONDS)
    off_loop.close()


async def test_a_plugin_thread_keeps_the_short_interval_when_a_computation_ends() -> None:
    """The computation begins first and ends last, when the plugin's thread has long been running."""
    off_loop, thread = OffLoop(), PluginThread("a plugin", lambda _kind, _text: None)

    await off_loop(lambda: thread.now(int, 5))

    assert thread.now(sys.getswitchinterval, 5) == pytest.approx(SWITCH_SECONDS)
    thread.leave()
    off_loop.close()


@pytest.fixture
def usual() -> Iterator[float]:
    """The interval of a process without such threads; other tests may have started some."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


def test_the_last_of_several_users_restores_the_usual_interval(usual: float) -> None:
    """The first one ends while the second one, which found the short interval, still runs."""
    interval = ShortSwitchInterval()
    first, second = ExitStack(), ExitStack()
    first.enter_context(interval)
    second.enter_context(interval)

    first.close()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    second.close()
    assert sys.getswitchinterval() == usual


def test_a_user_that_fails_restores_the_usual_interval(usual: float) -> None:
    """As the computation that raises does."""
    with pytest.raises(ValueError, match="not a number"), ShortSwitchInterval():
        _refuse()

    assert sys.getswitchinterval() == usual
