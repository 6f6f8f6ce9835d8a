"""How a turn ends: by its parent, once, or by the reaper if the parent is lost; always with everything closed."""

import asyncio
from datetime import UTC, timedelta
from typing import Any

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.records import TurnEnded
from sidecar.operations.rules import AdmissionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.enum_words import word
from tests.support.fake_runner import hangs, waits_for
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import StoreThatCanBeAway, event_named, event_names, kept, records_of
from tests.support.requests import failure_of
from tests.support.requirement import requirement

AT_ONCE: dict[str, Any] = {"rules": {"turn_lifetime": timedelta(0)}, "background": False}
"""A turn may be reaped as soon as it is bound, and the test says when the reaper looks."""


@requirement("PC2-D-51", "PC2-FR-15a")
async def test_a_turn_without_a_call_is_a_turn_like_any_other() -> None:
    """Bound and ended: no child, nothing run, the gate passes, and a routing decision is on record."""
    async with running_sidecar_for_tests() as sidecar:
        ended = await sidecar.end(await sidecar.bind(turn_id="turn-0"), narration="Hello!")

        assert (list(ended.children), ended.gate_passed, sidecar.runner.started) == ([], True, [])
        (stored,) = kept(sidecar, RoutingRecord)
        assert (stored.turn_id, stored.calls, stored.close_reason) == ("turn-0", (), "ended")


async def test_the_end_of_a_turn_stops_what_still_runs() -> None:
    """One call hangs and another waits for it: both get their outcomes, the listener its result, all is closed."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop", "ask_shop", "ask_rewards"))
        await sidecar.runner.until_started("shop", "rewards")

        ended = await sidecar.end(bound)
        reply = await running

        assert reply.outcomes[:2] == ["FAILED", "NOT_STARTED"]
        assert reply.of("call-1").status.message == "The turn ended before there was an answer."
        assert word(ended.children[0], "final_status") == "failed"
        assert len(ended.routing_decision.calls) == 3
        assert sidecar.runner.cancelled[0] == "shop"


async def test_nothing_can_be_begun_in_a_turn_that_has_ended() -> None:
    """No dispatch, no verdict on a child; what was dispatched before can still be read again."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        whole = await sidecar.dispatch(bound, "ask_shop", dispatch_id="d-1")
        await sidecar.end(bound)

        refused = await failure_of(sidecar.dispatch(bound, "ask_rewards"))
        again = await sidecar.resume(bound, "d-1")

        assert (refused.reason, sidecar.runner.started) == ("TURN_ENDED", ["shop"])
        assert again.result == whole.result


async def test_a_verdict_on_an_unknown_child_changes_nothing() -> None:
    """Refused; nothing was closed or written; the same turn can be ended properly."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        before = records_of(sidecar)
        verdicts = [pb.Integration(child_id=child), pb.Integration(child_id="child-nobody")]

        refused = await failure_of(sidecar.end(bound, integrations=verdicts))
        assert (refused.reason, records_of(sidecar)) == ("UNKNOWN_CHILD", before)

        assert (await sidecar.dispatch(bound, "ask_rewards")).outcomes == ["SUCCEEDED"]
        assert (await sidecar.end(bound, integrations=verdicts[:1])).gate_passed


async def test_the_narration_is_kept_and_repeating_the_end_keeps_it_once() -> None:
    """One row with what the user saw; none for a turn without words."""
    async with running_sidecar_for_tests() as sidecar:
        bound, silent = await sidecar.bind(turn_id="turn-a"), await sidecar.bind()
        for _ in range(2):
            await sidecar.end(bound, narration="Milk is cheaper.")
        await sidecar.end(silent)

        assert [(row.turn_id, row.narration) for row in kept(sidecar, TurnEnded)] == [
            ("turn-a", "Milk is cheaper."),
            ("turn-2", ""),
        ]
        assert len(kept(sidecar, RoutingRecord)) == 2


async def test_an_end_that_could_not_be_recorded_can_be_repeated() -> None:
    """The store is away: refused. Repeated when it is back: ended, once."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        store.away = True
        assert (await failure_of(sidecar.end(bound))).reason == "STORE_UNAVAILABLE"

        store.away = False
        ended = await sidecar.end(bound)

        assert [word(each, "final_status") for each in ended.children] == ["completed"]
        assert event_names(sidecar, child).count("closed") == 1
        assert len(sidecar.recorder.of("turn_routed")) == 1


async def test_an_end_whose_confirmation_was_lost_is_repeated_as_it_was_written() -> None:
    """The store has kept it but could not say so: the repeated end tells what is on record, to the microsecond."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store) as sidecar:
        bound = await sidecar.bind()
        child = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        store.is_cut_off = True
        assert (await failure_of(sidecar.end(bound))).reason == "STORE_UNAVAILABLE"
        (written,) = kept(sidecar, RoutingRecord)

        store.is_cut_off = False
        ended = await sidecar.end(bound)

        assert ended.routing_decision.ended_at.ToDatetime(tzinfo=UTC) == written.ended_at
        assert event_names(sidecar, child).count("closed") == 1


async def test_a_turn_whose_parent_is_lost_is_closed_by_the_reaper() -> None:
    """One child has answered, one hangs: both are closed as failed, with a routing decision that says why."""
    async with running_sidecar_for_tests(**AT_ONCE) as sidecar:
        sidecar.runner.use("rewards", hangs())
        bound = await sidecar.bind()
        answered = (await sidecar.dispatch(bound, "ask_shop")).of("call-1").child_id
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_rewards"))
        await sidecar.runner.until_started("rewards")

        await sidecar.operations.reaper.look()
        hung = (await running).of("call-1").child_id

        for child in (answered, hung):
            closing = event_named(sidecar, child, "subagent_closed").details()
            assert (closing["final_status"], closing["close_reason"]) == ("failed", "parent_lost")
        (routing,) = kept(sidecar, RoutingRecord)
        assert (routing.close_reason, routing.gate_passed, len(routing.calls)) == ("parent_lost", False, 2)


async def test_the_reaper_leaves_turns_alone_that_still_have_time() -> None:
    """A look at a young turn changes nothing."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()

        await sidecar.operations.reaper.look()

        assert (await sidecar.dispatch(bound, "ask_shop")).outcomes == ["SUCCEEDED"]
        assert kept(sidecar, RoutingRecord) == []


async def test_a_parent_that_comes_back_late_is_told_how_its_turn_was_closed() -> None:
    """Its `EndTurn` finds the turn reaped: the answer says so, and nothing is written again."""
    async with running_sidecar_for_tests(**AT_ONCE) as sidecar:
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop")
        await sidecar.operations.reaper.look()
        before = records_of(sidecar)

        ended = await sidecar.end(bound, narration="too late")

        assert ended.state == pb.START_STATE_ATTACHED
        assert (word(ended.routing_decision, "close_reason"), ended.gate_passed) == ("parent_lost", False)
        assert records_of(sidecar) == before


async def test_the_reaper_tries_again_when_the_store_was_away() -> None:
    """The first look is reported as an anomaly and leaves the turn; the second closes it, once."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store, **AT_ONCE) as sidecar:
        await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        store.away = True
        await sidecar.operations.reaper.look()
        assert [kind for kind, _ in sidecar.recorder.of("anomaly")] == ["reap_failed"]

        store.away = False
        await sidecar.operations.reaper.look()

        assert [each.close_reason for each in kept(sidecar, RoutingRecord)] == ["parent_lost"]


async def test_a_parent_that_comes_after_an_end_that_may_be_on_record_is_not_told_that_it_ended_the_turn() -> None:
    """The reaper's end was kept but not confirmed: the parent finds its turn ended, and its words are not on record."""
    store = StoreThatCanBeAway()
    async with running_sidecar_for_tests(store=store, **AT_ONCE) as sidecar:
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop")
        store.is_cut_off = True
        await sidecar.operations.reaper.look()
        store.is_cut_off = False

        ended = await sidecar.end(bound, narration="too late")

        assert ended.state == pb.START_STATE_ATTACHED
        assert (word(ended.routing_decision, "close_reason"), ended.gate_passed) == ("parent_lost", False)
        assert [each.close_reason for each in kept(sidecar, RoutingRecord)] == ["parent_lost"]


async def test_an_ended_turn_is_forgotten_when_its_time_is_over() -> None:
    """Two looks after the end: no turn is kept, and its token is worth nothing."""
    async with running_sidecar_for_tests(**AT_ONCE) as sidecar:
        bound = await sidecar.bind()
        await sidecar.end(bound)
        await sidecar.operations.reaper.look()

        assert list(sidecar.operations.turns) == []
        assert (await failure_of(sidecar.dispatch(bound, "ask_shop"))).reason == "SURFACE_TOKEN_EXPIRED"


async def test_two_ends_at_the_same_time_end_it_once() -> None:
    """A call still has to be stopped while both wait: the same answer to both, one row."""
    async with running_sidecar_for_tests() as sidecar:
        never = asyncio.Event()
        sidecar.runner.use("shop", waits_for(never))
        bound = await sidecar.bind()
        running = asyncio.create_task(sidecar.dispatch(bound, "ask_shop"))
        await sidecar.runner.until_started("shop")

        first, second = await asyncio.gather(sidecar.end(bound), sidecar.end(bound))
        await running

        assert first.routing_decision == second.routing_decision
        assert len(kept(sidecar, RoutingRecord)) == len(sidecar.recorder.of("turn_routed")) == 1


async def test_of_old_ended_turns_only_their_end_is_kept() -> None:
    """One is kept whole: the older one answers a repeated end as before, and its dispatch is read from the record."""
    rules = {"admission": AdmissionRules(ended_turns=1)}
    async with running_sidecar_for_tests(rules=rules) as sidecar:
        older, newer = await sidecar.bind(), await sidecar.bind()
        await sidecar.dispatch(older, "ask_shop", dispatch_id="d-1")
        await sidecar.dispatch(newer, "ask_shop", dispatch_id="d-2")
        ends = [await sidecar.end(bound) for bound in (older, newer)]

        again = await sidecar.end(older)
        assert sidecar.operations.turns.of_token(older.surface_token).dispatches == {}
        recorded = await sidecar.resume(older, "d-1")
        there = await sidecar.resume(newer, "d-2")

        assert (again.children, again.routing_decision) == (ends[0].children, ends[0].routing_decision)
        assert recorded.outcomes == there.outcomes == ["SUCCEEDED"]
        kept_turn = sidecar.operations.turns.of_token(older.surface_token)
        assert kept_turn.ending.request is None
        assert (await failure_of(sidecar.end(older, narration="something else"))).reason == "TURN_ID_REUSED"
