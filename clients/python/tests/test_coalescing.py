"""Parallel tool calls of any framework become one dispatch."""

import asyncio
from datetime import timedelta

import pytest

from clients.python.tests.support.fake_sidecar_host import FakeSidecar, Scene, scene, settled_event
from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import DispatchContext, DispatchEvent, Outcome, StatusUpdate, ToolCall
from subagents_client.coalescing import Coalescer
from subagents_errors import InvalidRequest

SHOP, REWARDS, SUPPORT = (ToolCall(f"call-{one}", f"ask_{one}") for one in ("shop", "rewards", "support"))
PATIENT = timedelta(minutes=5)


def dispatched(here: Scene) -> list[list[str]]:
    """Return the call ids of each dispatch that the sidecar was sent."""
    requests = [one for _, one in here.sidecar.received if isinstance(one, dispatch_pb2.DispatchRequest)]
    return [[call.call_id for call in request.calls] for request in requests]


async def test_calls_of_the_same_tick_are_one_dispatch() -> None:
    """Three tasks, as frameworks start them; each gets its own outcome."""
    async with scene() as here, Coalescer(await here.turn(), DispatchContext(task_prompt="socks")) as coalescer:
        outcomes = await asyncio.gather(*map(coalescer.ask, (SHOP, REWARDS, SUPPORT)))
        sent = here.sidecar.received[-1][1]

    assert dispatched(here) == [["call-shop", "call-rewards", "call-support"]]
    assert [one.narration for one in outcomes] == [f"answer to call-{one}" for one in ("shop", "rewards", "support")]
    assert isinstance(sent, dispatch_pb2.DispatchRequest)
    assert sent.task_prompt == "socks"
    assert list(coalescer.outcomes) == dispatched(here)[0]


async def test_the_calls_of_the_next_response_are_another_dispatch() -> None:
    """And the same call again is answered from the dispatch that it was in."""
    async with scene() as here, Coalescer(await here.turn()) as coalescer:
        first = await coalescer.ask(SHOP)
        await coalescer.ask(REWARDS)
        again = await coalescer.ask(SHOP)

    assert dispatched(here) == [["call-shop"], ["call-rewards"]]
    assert again == first


async def test_announced_calls_wait_for_each_other_and_keep_their_order() -> None:
    """The one that the model emitted first arrives last, many ticks later."""
    async with scene() as here, Coalescer(await here.turn(), patience=PATIENT) as coalescer:
        coalescer.expect(["call-shop", "call-rewards"])
        rewards = asyncio.ensure_future(coalescer.ask(REWARDS))
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.gather(coalescer.ask(SHOP), rewards)

    assert dispatched(here) == [["call-shop", "call-rewards"]]


async def test_a_call_that_will_not_come_is_not_waited_for() -> None:
    """A person refused it."""
    async with scene() as here, Coalescer(await here.turn(), patience=PATIENT) as coalescer:
        coalescer.expect(["call-shop", "call-rewards"])
        shop = asyncio.ensure_future(coalescer.ask(SHOP))
        await asyncio.sleep(0)
        coalescer.skip("call-rewards")
        await shop

    assert dispatched(here) == [["call-shop"]]


async def test_after_the_patience_the_others_go_without_the_missing_call() -> None:
    """What comes later is a dispatch of its own; nothing hangs."""
    async with scene() as here, Coalescer(await here.turn(), patience=timedelta(0)) as coalescer:
        coalescer.expect(["call-shop", "call-rewards"])
        await coalescer.ask(REWARDS)
        await coalescer.ask(SHOP)

    assert dispatched(here) == [["call-rewards"], ["call-shop"]]


async def test_a_refused_dispatch_is_a_failed_outcome_for_every_call() -> None:
    """The history stays complete whatever the sidecar says."""
    async with scene() as here, Coalescer(await here.turn()) as coalescer:
        here.sidecar.refusals["Dispatch"].append(InvalidRequest("too many"))
        outcomes = await asyncio.gather(*map(coalescer.ask, (SHOP, REWARDS)))

    assert [one.outcome for one in outcomes] == [Outcome.FAILED, Outcome.FAILED]
    assert isinstance(coalescer.results[0].cause, InvalidRequest)


async def test_progress_is_told_while_the_dispatch_runs() -> None:
    """For a user interface."""
    seen: list[object] = []
    events = [
        dispatch_pb2.DispatchEvent(sequence=1, call_id="call-shop", status=dispatch_pb2.StatusUpdate(type="searching"))
    ]
    async with (
        scene(FakeSidecar(events=events)) as here,
        Coalescer(await here.turn(), on_event=seen.append) as coalescer,
    ):
        await coalescer.ask(SHOP)

    assert [one.type for one in seen if isinstance(one, StatusUpdate)] == ["searching"]


async def test_a_cancelled_caller_cancels_its_call_and_no_other() -> None:
    """E.g. a time limit of the framework for each tool."""
    sidecar = FakeSidecar(hangs=True)
    async with scene(sidecar) as here, Coalescer(await here.turn(), patience=timedelta(0)) as coalescer:
        shop, rewards = (asyncio.ensure_future(coalescer.ask(one)) for one in (SHOP, REWARDS))
        await sidecar.reached.wait()
        shop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await shop
        await sidecar.cancelled.wait()
        rewards.cancel()

    cancels = [one for _, one in sidecar.received if isinstance(one, dispatch_pb2.CancelCallRequest)]
    assert [one.call_id for one in cancels] == ["call-shop"]


async def test_a_caller_goes_on_once_its_own_call_has_settled() -> None:
    """Two of three calls have settled; the third runs for ever."""
    events = [settled_event(1, SHOP), settled_event(2, REWARDS)]
    async with scene(FakeSidecar(events=events, hangs=True)) as here, Coalescer(await here.turn()) as coalescer:
        asked = [asyncio.ensure_future(coalescer.ask(one)) for one in (SHOP, REWARDS, SUPPORT)]
        outcomes = await asyncio.gather(*asked[:2])
        known = list(coalescer.outcomes)
        asked[2].cancel()

    assert [one.narration for one in outcomes] == ["answer to call-shop", "answer to call-rewards"]
    assert known == ["call-shop", "call-rewards"]
    assert coalescer.results == []


async def test_the_last_caller_goes_on_with_the_result_of_the_dispatch() -> None:
    """The agent's next step needs it: both calls have settled, and the result is still to come."""
    sidecar = FakeSidecar(events=[settled_event(1, SHOP), settled_event(2, REWARDS)], hangs=True)
    seen: asyncio.Queue[DispatchEvent] = asyncio.Queue()
    async with scene(sidecar) as here, Coalescer(await here.turn(), on_event=seen.put_nowait) as coalescer:
        asked = [asyncio.ensure_future(coalescer.ask(one)) for one in (SHOP, REWARDS)]
        await asked[0]
        assert [(await seen.get()).sequence, (await seen.get()).sequence] == [1, 2]
        for _ in range(20):
            await asyncio.sleep(0)
        held = not asked[1].done()
        asked[1].cancel()

    assert held
