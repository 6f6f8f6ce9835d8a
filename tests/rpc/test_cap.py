"""No more than N sub-agents run in a turn; what is over is dropped before it starts, and that is on record."""

import asyncio

import pytest

from sidecar.core.executing.records import CallSettled, ChildOpened
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from tests.support.builders import a_card
from tests.support.fake_runner import waits_for
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import kept
from tests.support.requests import failure_of
from tests.support.requirement import requirement


@requirement("PC2-AC-4a", "PC2-FR-7c", "PC2-T-7", "PC2-D-17")
async def test_with_one_call_over_the_cap_exactly_the_first_n_run() -> None:
    """Cap 2 and three calls: the first two in the order of emission, whatever the order of listing."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_support", "ask_shop", "ask_rewards")

        assert sidecar.runner.started == ["support", "shop"]
        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED", "DROPPED"]
        assert len(kept(sidecar, ChildOpened)) == 2


@requirement("PC2-AC-4b", "PC2-T-30")
async def test_the_surplus_call_is_on_record_as_dropped_before_execution() -> None:
    """Its outcome is stored, without a child; result and routing decision say that the cap was passed."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        bound = await sidecar.bind()

        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        routing = (await sidecar.end(bound)).routing_decision

        dropped = reply.of("call-2")
        assert dropped.status.reason == error_reason_pb2.ERROR_REASON_OVER_CAP
        assert (dropped.child_id, dropped.attempts) == ("", 0)
        stored = [each.outcome for each in kept(sidecar, CallSettled) if each.outcome.call_id == "call-2"]
        assert [str(each.reason) for each in stored] == ["OVER_CAP"]
        assert routing.cap == reply.result.cap == outcome_pb2.CAP_BEHAVIOUR_OVER
        assert [call.outcome for call in routing.calls][1] == outcome_pb2.OUTCOME_DROPPED


@requirement("PC2-FR-7a", "PC1-D-54")
@pytest.mark.parametrize("cap", [1, 2, 4])
async def test_the_cap_is_what_the_operator_has_set(cap: int) -> None:
    """With four calls, as many run as the configuration allows, and the surface says how many that is."""
    slots = ("shop", "rewards", "support", "travel")
    async with running_sidecar_for_tests(cap=cap, cards=[a_card(slot) for slot in slots]) as sidecar:
        bound = await sidecar.bind()

        await sidecar.dispatch(bound, *(f"ask_{slot}" for slot in slots))

        assert bound.surface.fan_out_cap == cap
        assert sidecar.runner.started == list(slots[:cap])


@requirement("PC2-FR-7c")
async def test_two_dispatches_of_a_turn_share_the_cap() -> None:
    """Cap 2, one call of an earlier response still runs: of the next response only one call does."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        shop_may_end = asyncio.Event()
        sidecar.runner.use("shop", waits_for(shop_may_end))
        bound = await sidecar.bind()
        earlier = asyncio.create_task(sidecar.dispatch(bound, "ask_shop"))
        await sidecar.runner.until_started("shop")

        later = await sidecar.dispatch(bound, "ask_rewards", "ask_support")
        shop_may_end.set()

        assert later.outcomes == ["SUCCEEDED", "DROPPED"]
        assert (await earlier).outcomes == ["SUCCEEDED"]


async def test_a_place_is_free_again_once_its_call_has_settled() -> None:
    """Cap 1 and two responses one after the other: both run."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        bound = await sidecar.bind()

        replies = [await sidecar.dispatch(bound, "ask_shop"), await sidecar.dispatch(bound, "ask_rewards")]

        assert [reply.outcomes for reply in replies] == [["SUCCEEDED"], ["SUCCEEDED"]]


async def test_calls_that_wait_for_their_turn_take_a_place_too() -> None:
    """Cap 2: one of two calls to a sub-agent waits for the other, yet a third call is over the cap."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_shop", "ask_rewards")

        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED", "DROPPED"]


async def test_a_refused_call_takes_no_place() -> None:
    """Cap 2: a call of a tool that is not bound is refused, and the two after it run."""
    async with running_sidecar_for_tests(cap=2) as sidecar:
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_travel", "ask_shop", "ask_rewards")

        assert reply.outcomes == ["REFUSED", "SUCCEEDED", "SUCCEEDED"]
        assert reply.of("call-1").status.reason == error_reason_pb2.ERROR_REASON_UNKNOWN_TOOL
        assert reply.result.cap == outcome_pb2.CAP_BEHAVIOUR_AT


async def test_a_dropped_call_can_be_asked_again_in_the_next_response() -> None:
    """The model repeats what was dropped; now there is room."""
    async with running_sidecar_for_tests(cap=1) as sidecar:
        bound = await sidecar.bind()

        first = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        second = await sidecar.dispatch(bound, "ask_rewards")

        assert [first.outcomes, second.outcomes] == [["SUCCEEDED", "DROPPED"], ["SUCCEEDED"]]
        assert second.of("call-1").emission_index == 2


async def test_a_turn_may_begin_only_so_many_dispatches() -> None:
    """Two are allowed: the third is refused and runs nothing, while repeating the second still attaches to it."""
    async with running_sidecar_for_tests(max_dispatches=2) as sidecar:
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop")
        second = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-2")

        refused = await failure_of(sidecar.dispatch(bound, "ask_shop"))
        again = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-2")

        assert (refused.reason, refused.metadata["limit"]) == ("TOO_MANY_DISPATCHES", "2")
        assert again.result == second.result
        assert len(sidecar.runner.started) == 2
