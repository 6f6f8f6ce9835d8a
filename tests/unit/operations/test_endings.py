"""An ending is decided once, tells everybody, and survives whoever stops waiting for it."""

import asyncio

import pytest

from sidecar.operations.first_result import FirstResult


async def test_the_first_to_decide_it_decides_it() -> None:
    """A second word is not heard."""
    ending: FirstResult[str] = FirstResult()

    assert ending.settle("first")
    assert not ending.settle("second")

    assert ending.settled
    assert ending.how == "first"
    assert await ending.wait() == "first"


async def test_it_may_be_decided_with_none() -> None:
    """None is a decision, too: an opening that nothing refused."""
    ending: FirstResult[None] = FirstResult()

    assert ending.settle(None)

    assert ending.settled
    assert not ending.settle(None)
    await ending.wait()


async def test_whoever_wants_to_know_is_told_at_once_in_order() -> None:
    """One asks before, one after."""
    ending: FirstResult[str] = FirstResult()
    told: list[str] = []
    ending.on_settled(lambda how: told.append(f"early {how}"))

    ending.settle("done")
    ending.on_settled(lambda how: told.append(f"late {how}"))

    assert told == ["early done", "late done"]


async def test_a_waiter_that_is_cancelled_decides_nothing() -> None:
    """Two wait, one is cancelled; the other hears how it ended."""
    ending: FirstResult[str] = FirstResult()
    leaving, staying = asyncio.create_task(ending.wait()), asyncio.create_task(ending.wait())
    await asyncio.sleep(0)

    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert not ending.settled

    ending.settle("done")
    assert await staying == "done"


async def test_a_waiter_cancelled_in_the_same_turn_of_the_loop_disturbs_nobody() -> None:
    """It is cancelled first, and the ending is settled before it has noticed."""
    ending: FirstResult[str] = FirstResult()
    leaving, staying = asyncio.create_task(ending.wait()), asyncio.create_task(ending.wait())
    await asyncio.sleep(0)

    leaving.cancel()
    ending.settle("done")

    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await staying == "done"
