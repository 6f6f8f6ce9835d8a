"""The deadlines of a dispatch: one timer, which is always that of the earliest one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypeVarTuple, Unpack, override

from sidecar.operations.deadlines import Deadline, Deadlines, deadline_at
from tests.unit.flags.virtual_time import in_virtual_time

Given = TypeVarTuple("Given")


class TimersSeen(asyncio.SelectorEventLoop):
    """Counts the timers that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[asyncio.TimerHandle] = []

    @override
    def call_at(
        self, when: float, callback: Callable[[Unpack[Given]], object], *args: *Given, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = super().call_at(when, callback, *args, context=context)
        self.timers.append(timer)
        return timer

    @property
    def waiting(self) -> list[float]:
        """Return when the timers that were not cancelled are due."""
        return [timer.when() for timer in self.timers if not timer.cancelled()]


async def sleep_until(when: float) -> None:
    """Wait until a time of the loop's clock has passed."""
    await asyncio.sleep(when - asyncio.get_running_loop().time() + 0.001)


def test_they_come_due_in_order_of_time_then_of_making() -> None:
    """However they were made, and also those that were made by another one that came due."""

    async def come_due() -> list[str]:
        deadlines, told, began = Deadlines(), list[str](), asyncio.get_running_loop().time()
        deadlines.at(began + 3, told.append, "3")
        deadlines.at(began + 1, told.append, "1")
        deadlines.at(began + 1, lambda: deadlines.at(began + 1, told.append, "1, made late"))
        deadlines.at(began + 2, told.append, "2")
        deadlines.at(began + 1, told.append, "1 again")
        await sleep_until(began + 3)
        return told

    assert in_virtual_time(come_due()) == ["1", "1 again", "1, made late", "2", "3"]


def test_the_next_one_comes_due_after_the_earliest_was_cancelled() -> None:
    """The timer was that of the cancelled one."""

    async def come_due() -> list[str]:
        deadlines, told, began = Deadlines(), list[str](), asyncio.get_running_loop().time()
        deadlines.at(began + 1, told.append, "cancelled").cancel()
        deadlines.at(began + 2, told.append, "next")
        await sleep_until(began + 2)
        return told

    assert in_virtual_time(come_due()) == ["next"]


def test_one_that_raises_keeps_none_of_the_others() -> None:
    """It is reported as whatever a callback of the loop raises."""

    async def come_due() -> tuple[list[str], list[str]]:
        deadlines, told, raised = Deadlines(), list[str](), list[str]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(type(context["exception"]).__name__))
        began = loop.time()
        deadlines.at(began + 1, int, "no number")
        deadlines.at(began + 1, told.append, "the same time")
        deadlines.at(began + 2, told.append, "later")
        await sleep_until(began + 2)
        return told, raised

    assert in_virtual_time(come_due()) == (["the same time", "later"], ["ValueError"])


def test_there_is_one_timer_however_many_there_are() -> None:
    """That of the earliest; and none once all of them are cancelled."""
    loop = TimersSeen()

    async def make() -> None:
        deadlines, now = Deadlines(), loop.time()
        for seconds in (300.0, 200.0, 400.0, 100.0, 500.0):
            deadlines.at(now + seconds, print)
        assert loop.waiting == [now + 100]
        deadlines.cancel_all()
        assert loop.waiting == []
        deadlines.at(now + 600, print)
        assert loop.waiting == [now + 600]
        deadlines.cancel_all()

    try:
        loop.run_until_complete(make())
    finally:
        loop.close()


@given(st.lists(st.tuples(st.sampled_from(["at", "cancel", "wait"]), st.integers(0, 20)), max_size=30))
def test_each_comes_due_at_its_time_unless_it_was_cancelled(moves: list[tuple[str, int]]) -> None:
    """In any order of making, cancelling and waiting."""

    async def play() -> None:
        loop, deadlines = asyncio.get_running_loop(), Deadlines()
        began, told, expected = loop.time(), list[int](), dict[int, float]()
        made: list[Deadline] = []

        def due(number: int) -> None:
            told.append(number)
            assert loop.time() >= expected[number]

        for move, amount in moves:
            if move == "at":
                expected[len(made)] = loop.time() + amount
                made.append(deadlines.at(loop.time() + amount, due, len(made)))
            elif move == "cancel" and made:
                place = amount % len(made)
                made[place].cancel()
                if place not in told:
                    expected.pop(place, None)
            else:
                await asyncio.sleep(amount)
        await sleep_until(began + 1000)
        assert told == sorted(expected, key=lambda number: (expected[number], number))

    in_virtual_time(play())


async def test_work_that_ends_in_time_is_returned() -> None:
    """With the value, or the error."""
    deadlines, until = Deadlines(), asyncio.get_running_loop().time() + 60

    assert await deadline_at(until, asyncio.sleep(0, "value"), deadlines.at) == "value"
    with pytest.raises(ZeroDivisionError):
        await deadline_at(until, _raising(), asyncio.get_running_loop().call_at)


async def test_work_that_takes_too_long_is_cancelled() -> None:
    """And the caller, which was not meant, goes on."""
    deadlines, seen = Deadlines(), list[str]()

    with pytest.raises(TimeoutError):
        await deadline_at(0.0, _waiting(seen), deadlines.at)

    assert seen == ["cancelled"]
    await asyncio.sleep(0)  # nothing of the cancellation is left


@pytest.mark.parametrize("in_the_same_pass", [False, True])
async def test_a_caller_that_is_cancelled_is_not_told_of_a_timeout(in_the_same_pass: bool) -> None:
    """Even if its time is over in the same pass of the loop."""
    loop, deadlines, seen = asyncio.get_running_loop(), Deadlines(), list[str]()
    task = asyncio.ensure_future(
        deadline_at(loop.time() + (0 if in_the_same_pass else 60), _waiting(seen), deadlines.at)
    )
    await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def _raising() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError


async def _waiting(seen: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise


def test_a_deadline_that_is_due_at_once_stops_no_other_one_on_uvloop() -> None:
    """The loop of the served sidecar returns a handle without `when()` for a timer within half a millisecond."""

    async def both() -> list[str]:
        loop, deadlines, told = asyncio.get_running_loop(), Deadlines(), list[str]()
        last = loop.create_future()
        deadlines.at(loop.time(), told.append, "at once")
        deadlines.at(loop.time() + 0.002, last.set_result, None)
        async with asyncio.timeout(10):
            await last
        return told

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(both()) == ["at once"]
