"""The parent alone joins, judges and closes its children, and with that settles the turn (SX sections 3 to 5)."""

import asyncio
from typing import Any

import pytest

from sidecar.core.identifiers import TurnId
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.builders import a_card, with_limits
from tests.support.enum_words import word
from tests.support.fake_runner import answers, hangs, raises
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.records import event_named, event_names, events_of
from tests.support.requests import failure_of
from tests.support.requirement import requirement

ACCEPTED, REJECTED = pb.VERDICT_ACCEPTED, pb.VERDICT_REJECTED


async def close(sidecar: SidecarForTests, bound: pb.BindTurnResponse, child_id: str, **fields: Any) -> pb.ChildSummary:
    """Close one child."""
    request = pb.CloseChildRequest(surface_token=bound.surface_token, child_id=child_id, **fields)
    answer: pb.CloseChildResponse = await sidecar.stub.CloseChild(request, timeout=10, metadata=sidecar.metadata)
    return answer.child


def ends(children: Any) -> list[tuple[str, str]]:
    """Return how children ended, in emission order."""
    return [(word(child, "final_status"), word(child, "close_reason")) for child in children]


@requirement("SX-25", "SX-31", "SX-29")
async def test_the_parent_closes_every_child_whatever_became_of_it() -> None:
    """One answered, one lacks data, one raised: all three are closed and their end is stored."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", answers(data_unavailable=True))
        sidecar.runner.use("support", raises(ValueError("x")))
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards", "ask_support")

        ended = await sidecar.end(bound)

        assert ends(ended.children) == [
            ("completed", "integrated"),
            ("completed", "integrated"),
            ("failed", "execution_failed"),
        ]
        for outcome, child in zip(reply.result.outcomes, ended.children, strict=True):
            stored = event_named(sidecar, outcome.child_id, "subagent_closed").details()
            assert stored["final_status"] == word(child, "final_status")


@requirement("SX-22", "SX-30", "SX-34", "SX-52")
async def test_the_parents_verdict_decides_and_not_the_workers_word() -> None:
    """The worker said it succeeded; the parent could not use it: the child has failed, with the parent's reason."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        child = reply.of("call-1").child_id
        verdict = pb.Integration(child_id=child, verdict=REJECTED, reason="contradicts the receipt")

        ended = await sidecar.end(bound, integrations=[verdict])

        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED"]
        assert ends(ended.children) == [("failed", "integration_failed"), ("completed", "integrated")]
        assert event_named(sidecar, child, "integration_failed").details() == {"reason": "contradicts the receipt"}
        assert event_names(sidecar, child)[-3:] == ["waiting_for_merge", "integration_failed", "closed"]


@requirement("SX-30")
async def test_a_child_that_failed_cannot_be_accepted() -> None:
    """The parent says `accepted` of a child that raised: it stays failed."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", raises(ValueError("x")))
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id

        ended = await sidecar.end(bound, integrations=[pb.Integration(child_id=child, verdict=ACCEPTED)])

        assert ends(ended.children) == [("failed", "execution_failed")]
        assert not ended.gate_passed


@requirement("SX-26", "SX-33")
async def test_a_child_is_done_only_when_it_is_closed() -> None:
    """Its worker has finished, yet there is no `closed` until the parent closes it; then there is nothing after."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        assert event_names(sidecar, child)[-1] == "waiting_for_merge"

        summary = await close(sidecar, bound, child)

        assert ends([summary]) == [("completed", "integrated")]
        assert event_names(sidecar, child)[-1] == "closed"
        assert ends((await sidecar.end(bound)).children) == [("completed", "integrated")]


@requirement("SX-32")
@pytest.mark.parametrize(("verdict", "passed"), [(ACCEPTED, True), (REJECTED, False)])
async def test_the_parents_verdict_settles_the_turn(verdict: Any, passed: bool) -> None:
    """The same child output; the gate follows the parent, in the answer and in the routing decision."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id

        ended = await sidecar.end(bound, integrations=[pb.Integration(child_id=child, verdict=verdict)])

        assert ended.gate_passed == ended.routing_decision.gate_passed == passed


@requirement("SX-31", "SX-2")
async def test_a_verdict_may_be_repeated_but_not_changed() -> None:
    """The same again: the same answer. Another one: refused, and the first stands."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id

        first = await close(sidecar, bound, child, verdict=REJECTED, reason="stale prices")
        again = await close(sidecar, bound, child, verdict=REJECTED, reason="stale prices")
        other = await failure_of(close(sidecar, bound, child, verdict=ACCEPTED))

        assert first == again
        assert (other.reason, other.metadata["close_reason"]) == ("CHILD_CLOSED", "integration_failed")
        assert ends((await sidecar.end(bound)).children) == [("failed", "integration_failed")]


async def test_a_running_child_cannot_be_closed() -> None:
    """Refused while the worker runs; its call has to be cancelled first."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1"))
        await sidecar.runner.until_started("shop")
        child = sidecar.runner.request_of("shop").child_id

        refused = await failure_of(close(sidecar, bound, child))
        cancel = pb.CancelCallRequest(surface_token=bound.surface_token, dispatch_id="d-1", call_id="call-1")
        await sidecar.stub.CancelCall(cancel, timeout=10, metadata=sidecar.metadata)
        await running

        assert refused.reason == "CHILD_CLOSED"
        assert ends([await close(sidecar, bound, child)]) == [("failed", "execution_failed")]


async def test_a_child_that_no_turn_has_cannot_be_closed() -> None:
    """Unknown, and one of another turn."""
    async with running_sidecar_for_tests() as sidecar:
        mine, other = await sidecar.bind(), await sidecar.bind()
        child = (await sidecar.dispatch(other, "ask_shop")).of("call-1").child_id

        assert (await failure_of(close(sidecar, mine, "child-nobody"))).reason == "UNKNOWN_CHILD"
        assert (await failure_of(close(sidecar, mine, child))).reason == "UNKNOWN_CHILD"


@requirement("SX-25")
@pytest.mark.parametrize("closed_by_parent", [True, False])
async def test_a_card_may_ask_for_an_explicit_close(closed_by_parent: bool) -> None:
    """`close_on_completion: false`: without `CloseChild` the end of the turn finds it unintegrated, hence failed."""
    cards = [with_limits(a_card("shop"), close_on_completion=False)]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        if closed_by_parent:
            await close(sidecar, bound, child)

        ended = await sidecar.end(bound)

        expected = ("completed", "integrated") if closed_by_parent else ("failed", "turn_ended")
        assert ends(ended.children) == [expected]
        assert ended.gate_passed == closed_by_parent


async def test_min_success_lets_a_turn_pass_with_some_and_cancels_nobody() -> None:
    """Shop raises at once. Where two must do the gate passes, where three must it does not; both others answer."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", raises(ValueError("x")))
        for needed, passed in ((2, True), (3, False)):
            bound = await sidecar.bind()
            join = pb.JoinPolicy(min_success=needed)
            reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards", "ask_support", join=join)

            assert reply.outcomes == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
            assert (await sidecar.end(bound)).gate_passed == passed


@requirement("SX-35", "SX-36")
@pytest.mark.parametrize(
    ("rewards", "verdict", "passed"),
    [(answers(), ACCEPTED, True), (answers(), REJECTED, False), (raises(ValueError("x")), ACCEPTED, False)],
    ids=["all integrated", "one rejected", "one failed"],
)
async def test_the_run_succeeds_only_with_every_child_closed_and_integrated(
    rewards: Any, verdict: Any, passed: bool
) -> None:
    """One child that is closed after `failed`, for whatever cause, is the run's failure path."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("rewards", rewards)
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        verdicts = [pb.Integration(child_id=reply.of("call-2").child_id, verdict=verdict)]

        ended = await sidecar.end(bound, integrations=verdicts)

        names = [event_names(sidecar, outcome.child_id)[-1] for outcome in reply.result.outcomes]
        assert (names, ended.gate_passed) == (["closed", "closed"], passed)
        assert (word(ended.children[1], "final_status") == "completed") == passed


@requirement("SX-37")
async def test_the_run_is_complete_only_after_the_join() -> None:
    """While the work is through and the parent has said nothing there is no end of the run on record; then there is."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind(turn_id="turn-a")
        await sidecar.dispatch(bound, "ask_shop")
        before = await sidecar.store.turn(TurnId("turn-a"))

        await sidecar.end(bound)
        after = await sidecar.store.turn(TurnId("turn-a"))

        assert before is not None
        assert after is not None
        assert (before.ended, before.routing) == (None, None)
        assert after.ended is not None
        assert after.routing is not None
        assert max(event.time for child in after.children for event in child.events) <= after.ended.ended_at


@requirement("SX-44")
@pytest.mark.parametrize(("verdict", "name"), [(ACCEPTED, "integration_accepted"), (REJECTED, "integration_failed")])
async def test_the_verdict_is_an_event_between_waiting_and_closed(verdict: Any, name: str) -> None:
    """With the parent as its actor; the close after it is the parent's too."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        await close(sidecar, bound, child, verdict=verdict)

        assert event_names(sidecar, child)[-3:] == ["waiting_for_merge", name, "closed"]
        assert [event.actor for event in events_of(sidecar, child)][-3:] == ["sidecar", "parent", "parent"]


@requirement("SX-31")
@pytest.mark.parametrize(("first", "then"), [(ACCEPTED, REJECTED), (REJECTED, ACCEPTED)])
async def test_the_end_of_a_turn_cannot_contradict_an_earlier_verdict(first: Any, then: Any) -> None:
    """It is refused and changes nothing; without a verdict for that child, or with the same one, the turn ends."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        await close(sidecar, bound, child, verdict=first)

        refused = await failure_of(sidecar.end(bound, integrations=[pb.Integration(child_id=child, verdict=then)]))
        ended = await sidecar.end(bound, integrations=[pb.Integration(child_id=child, verdict=first)])

        assert refused.reason == "CHILD_CLOSED"
        assert (word(ended.children[0], "final_status") == "completed") == (first == ACCEPTED)
