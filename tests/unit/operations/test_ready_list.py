"""What is ready for the calls of a dispatch is done together, once, and nothing of it is forgotten."""

import asyncio
from functools import partial

import pytest

from sidecar.core.identifiers import CallId
from sidecar.operations.ready_list import LaidOut, ReadyList, Step


def nothing() -> None:
    """Stand for somebody who does not have to be relieved."""


def step(name: str) -> Step:
    """Return a step that is known by the call it is for."""

    def lay_out(_: object) -> LaidOut:
        raise NotImplementedError

    return Step(CallId(name), lay_out)


async def names(ready: ReadyList) -> list[str]:
    """Take, and return the calls."""
    return [each.call_id for each in await ready.take(nothing)]


async def test_what_becomes_ready_in_one_pass_is_taken_together() -> None:
    """In order, by somebody who waits for it since before."""
    ready = ReadyList()
    taking = asyncio.ensure_future(names(ready))
    await asyncio.sleep(0)

    for name in "abc":
        asyncio.get_running_loop().call_soon(ready.put, step(name))

    assert await taking == ["a", "b", "c"]


async def test_what_is_there_is_taken_without_waiting() -> None:
    """No pass of the loop goes by."""
    ready = ReadyList()
    ready.put(step("a"))
    ready.put(step("b"))

    with pytest.raises(StopIteration) as end:
        names(ready).send(None)
    assert end.value.value == ["a", "b"]


async def test_what_becomes_ready_while_the_taker_is_busy_calls_for_another() -> None:
    """Once, however much it is; who was busy finds that it is awaited already."""
    ready, called = ReadyList(), list[str]()
    ready.put(step("first"))
    await ready.take(partial(called.append, "relief"))
    attended = [ready.attended]

    ready.put(step("a"))
    ready.put(step("b"))

    assert called == ["relief"]
    assert [*attended, ready.attended] == [False, True]
    assert await names(ready) == ["a", "b"]


async def test_nobody_is_called_for_while_somebody_waits() -> None:
    """Neither for who is about to begin, nor for who waits once more."""
    ready, called = ReadyList(), list[str]()
    ready.put(step("before anybody takes"))
    await ready.take(partial(called.append, "relief"))
    waiting = asyncio.ensure_future(names(ready))
    await asyncio.sleep(0)

    ready.put(step("a"))
    ready.put(step("b"))

    assert called == []
    assert await waiting == ["a", "b"]


async def test_it_is_imminent_from_when_a_taker_is_woken_until_it_takes() -> None:
    """A listener may wait for that; not for a taker that is busy with something that may take its time."""
    ready = ReadyList()
    waiting = asyncio.ensure_future(names(ready))
    await asyncio.sleep(0)
    seen = [ready.imminent]

    ready.put(step("a"))
    seen.append(ready.imminent)
    await waiting
    seen.append(ready.imminent)

    assert seen == [False, True, False]


async def test_whoever_waits_when_it_is_closed_gets_nothing() -> None:
    """And whoever comes later."""
    ready = ReadyList()
    waiting = asyncio.ensure_future(names(ready))
    await asyncio.sleep(0)

    ready.close()

    assert ready.closed
    assert await waiting == []
    assert await names(ready) == []


async def test_nobody_is_called_for_once_it_is_closed() -> None:
    """Whoever was busy meanwhile finds that there is nothing to come back for."""
    ready, called = ReadyList(), list[str]()
    ready.put(step("first"))
    await ready.take(partial(called.append, "relief"))

    ready.close()
    ready.put(step("too late"))

    assert called == []


async def test_a_taker_that_is_cancelled_takes_nothing_along() -> None:
    """It is cancelled before, or in the same pass in which something becomes ready."""
    ready = ReadyList()
    for late in (False, True):
        waiting = asyncio.ensure_future(names(ready))
        await asyncio.sleep(0)
        waiting.cancel()
        if not late:
            await asyncio.wait([waiting])
        ready.put(step("a"))
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert await names(ready) == ["a"]
