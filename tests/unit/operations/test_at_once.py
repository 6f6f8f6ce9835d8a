"""Waiting with a limit, with a timer only for who really waits."""

import asyncio

import pytest

from sidecar.operations.bounded_wait import await_with_limit


class Work:
    """Something to wait for, which says how it ended."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.seen: list[str] = []

    async def do(self) -> int:
        """Wait twice."""
        try:
            await asyncio.sleep(0)
            return await self.ready
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise


async def at_once() -> int:
    """Return without waiting."""
    return 7


async def broken() -> int:
    """Fail without waiting."""
    raise ValueError("broken")


def test_what_is_there_costs_no_timer() -> None:
    """The value or the error comes through without an event loop, and only a loop has timers."""
    with pytest.raises(StopIteration) as end:
        await_with_limit(0.0, at_once()).send(None)
    assert end.value.value == 7
    with pytest.raises(ValueError, match="broken"):
        await_with_limit(0.0, broken()).send(None)


async def test_what_comes_later_comes_through() -> None:
    """The work goes on where it began to wait; a future may be waited for as well."""
    work = Work()
    asyncio.get_running_loop().call_soon(work.ready.set_result, 7)

    assert await await_with_limit(10.0, work.do()) == 7
    assert await await_with_limit(10.0, work.ready) == 7


async def test_who_takes_too_long_is_cancelled() -> None:
    """The work sees it, and the caller hears of the time."""
    work = Work()

    with pytest.raises(TimeoutError):
        await await_with_limit(0.0, work.do())

    assert work.seen == ["cancelled"]


async def test_a_cancelled_caller_cancels_the_work() -> None:
    """As with a plain await; nothing goes on in the background."""
    work = Work()
    task = asyncio.ensure_future(await_with_limit(10.0, work.do()))
    await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.seen == ["cancelled"]


async def test_an_error_that_comes_later_is_the_callers() -> None:
    """It is not mistaken for a timeout."""
    work = Work()
    asyncio.get_running_loop().call_soon(work.ready.set_exception, ValueError("late"))

    with pytest.raises(ValueError, match="late"):
        await await_with_limit(10.0, work.do())
