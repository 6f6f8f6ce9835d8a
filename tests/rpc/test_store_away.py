"""While the store is away nothing is passed on that it has not confirmed, and nothing is lost that can be repeated."""

import asyncio
from typing import Any

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.errors.v1 import error_reason_pb2 as errors_pb
from tests.support.enum_words import word
from tests.support.fake_runner import waits_for
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway, event_named, event_names
from tests.support.requests import failure_of
from tests.support.requirement import requirement


@requirement("SX-23", "SX-43")
async def test_an_answer_that_could_not_be_recorded_is_not_passed_on() -> None:
    """The worker answered while the store was away: failed; the log tells that cause, and not that it was rejected."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store) as sidecar:
        may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(may_end))
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop"))
        await sidecar.runner.until_started("shop")
        store.away = True
        may_end.set()

        outcome = (await running).of("call-1")
        store.away = False
        (child,) = (await sidecar.end(bound)).children

        assert (outcome.status.reason, outcome.narration) == (errors_pb.ERROR_REASON_RECORD_UNAVAILABLE, "")
        assert (word(child, "final_status"), word(child, "close_reason")) == ("failed", "integration_failed")
        cause = event_named(sidecar, outcome.child_id, "integration_failed").details()
        assert cause == {"reason": "RECORD_UNAVAILABLE"}


async def test_a_call_that_waited_is_not_started_while_the_store_is_away() -> None:
    """One at a time: the second has its turn when its opening cannot be recorded, so it is not run."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store) as sidecar:
        may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(may_end))
        running = asyncio.create_task(
            sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards", join=pb.JoinPolicy(max_parallel=1))
        )
        await sidecar.runner.until_started("shop")
        store.away = True
        may_end.set()

        reply = await running

        assert reply.outcomes == ["FAILED", "NOT_STARTED"]
        assert sidecar.runner.started == ["shop"]


@requirement("SX-31")
async def test_a_verdict_that_could_not_be_recorded_can_be_repeated() -> None:
    """Refused while the store is away; repeated later it is written once, and the end of the turn changes nothing."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        request = pb.CloseChildRequest(
            surface_token=bound.surface_token, child_id=child, verdict=pb.VERDICT_REJECTED, reason="stale prices"
        )
        store.away = True
        refused = await failure_of(sidecar.stub.CloseChild(request, timeout=10, metadata=sidecar.metadata))
        assert (refused.reason, "closed" in event_names(sidecar, child)) == ("STORE_UNAVAILABLE", False)

        store.away = False
        answer: Any = await sidecar.stub.CloseChild(request, timeout=10, metadata=sidecar.metadata)
        ended = await sidecar.end(bound)

        assert answer.child == ended.children[0]
        assert event_names(sidecar, child)[-2:] == ["integration_failed", "closed"]
        assert event_named(sidecar, child, "integration_failed").details() == {"reason": "stale prices"}
