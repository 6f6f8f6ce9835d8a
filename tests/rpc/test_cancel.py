"""One call can be cancelled; its siblings, and the turn, go on."""

import asyncio
from typing import Any

import pytest

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1 import error_reason_pb2 as errors_pb
from tests.support.enum_words import word
from tests.support.fake_runner import hangs, ignores_cancel, waits_for
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import event_named
from tests.support.requests import failure_of


async def cancel(sidecar: SidecarForTests, bound: pb.BindTurnResponse, call_id: str, dispatch_id: str = "d-1") -> bool:
    """Cancel one call of a dispatch; say whether it was still going."""
    request = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id=dispatch_id, call_id=call_id)
    answer: Any = await sidecar.stub.CancelCall(request, timeout=10, metadata=sidecar.metadata)
    return bool(answer.cancelled)


async def test_a_cancelled_call_fails_and_its_sibling_goes_on() -> None:
    """Shop is cancelled while both run; rewards goes on only afterwards, and answers."""
    async with running_sidecar_for_tests() as sidecar:
        go_on = asyncio.Event()
        sidecar.runner.use("shop", hangs())
        sidecar.runner.use("rewards", waits_for(go_on))
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", "ask_rewards", dispatch_id="d-1"))
        await sidecar.runner.until_started("shop", "rewards")

        assert await cancel(sidecar, bound, "call-1")
        go_on.set()
        reply = await running

        assert reply.outcomes == ["FAILED", "SUCCEEDED"]
        assert reply.of("call-1").status.reason == errors_pb.ERROR_REASON_CALL_CANCELLED
        assert sidecar.runner.cancelled == ["shop"]
        failed = event_named(sidecar, reply.of("call-1").child_id, "failed").details()
        assert failed["cause"] == "CALL_CANCELLED"


async def test_a_call_that_still_waits_is_never_started_once_it_is_cancelled() -> None:
    """One at a time: the second is cancelled before its turn, then the first ends."""
    async with running_sidecar_for_tests() as sidecar:
        may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(may_end))
        bound = await sidecar.bind()
        one_at_a_time = pb.JoinPolicy(max_parallel=1)
        running = asyncio.create_task(
            sidecar.dispatch(bound, "ask_shop", "ask_rewards", dispatch_id="d-1", join=one_at_a_time)
        )
        await sidecar.runner.until_started("shop")

        assert await cancel(sidecar, bound, "call-2")
        may_end.set()
        reply = await running

        assert reply.outcomes == ["SUCCEEDED", "NOT_STARTED"]
        assert reply.of("call-2").status.reason == errors_pb.ERROR_REASON_CALL_CANCELLED
        assert sidecar.runner.started == ["shop"]


async def test_cancelling_twice_and_cancelling_what_has_settled_change_nothing() -> None:
    """The second time, and after the end, the answer is that it was not going any more."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_nobody", dispatch_id="d-1")

        assert not await cancel(sidecar, bound, "call-1")
        assert not await cancel(sidecar, bound, "call-2")

        assert (await sidecar.resume(bound, "d-1")).result == reply.result


@pytest.mark.parametrize(
    ("dispatch_id", "call_id", "reason"), [("d-1", "call-9", "UNKNOWN_CALL"), ("d-9", "call-1", "UNKNOWN_DISPATCH")]
)
async def test_what_is_not_known_cannot_be_cancelled(dispatch_id: str, call_id: str, reason: str) -> None:
    """A call that the dispatch does not have, and a dispatch that the turn does not have."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")

        assert (await failure_of(cancel(sidecar, bound, call_id, dispatch_id))).reason == reason


async def test_a_sub_agent_that_does_not_stop_is_not_waited_for() -> None:
    """It goes on after the cancel; its call has its outcome, and what it says later is thrown away."""
    async with running_sidecar_for_tests() as sidecar:
        allowed_to_end = asyncio.Event()
        sidecar.runner.use("shop", ignores_cancel(allowed_to_end))
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1"))
        await sidecar.runner.until_started("shop")

        assert await cancel(sidecar, bound, "call-1")
        reply = await running
        allowed_to_end.set()
        ended = await sidecar.end(bound)

        assert (reply.outcomes, reply.of("call-1").narration) == (["FAILED"], "")
        assert [word(child, "final_status") for child in ended.children] == ["failed"]
        assert (await sidecar.resume(bound, "d-1")).result == reply.result


async def test_the_place_of_a_cancelled_call_is_free_again() -> None:
    """Cap 1: after the cancel the next response runs."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1"))
        await sidecar.runner.until_started("shop")
        assert await cancel(sidecar, bound, "call-1")
        await running

        assert (await sidecar.dispatch(bound, "ask_rewards")).outcomes == ["SUCCEEDED"]
