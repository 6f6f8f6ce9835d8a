"""`sidecar end-turn`: an operator ends a turn that its parent does not end."""

import asyncio
import json

from sidecar.cli.subagent.activity import end_turn
from sidecar.core.dispatching.routing_record import RoutingRecord
from tests.support.enum_words import word
from tests.support.fake_runner import hangs
from tests.support.operator_desk import Answers, Desk, typed, wish
from tests.support.operators import an_operated_sidecar
from tests.support.records import event_named, kept
from tests.support.requests import failure_of
from tests.support.requirement import requirement


@requirement("SX-25", "SX-26")
async def test_a_turn_whose_call_hangs_is_ended_with_everything_closed() -> None:
    """The parent still has its outcome, the child is closed by the operator, and the log says who ended it, and why."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        bench.sidecar.runner.use("shop", hangs())
        bound = await bench.sidecar.bind(turn_id="turn-1", principal="user-20")
        waits = asyncio.create_task(bench.sidecar.dispatch(bound, "ask_shop"))
        await bench.sidecar.runner.until_started("shop")

        code, out, errors = await Desk(bench).say(end_turn, wish("turn-1", reason="left over by a test run"))

        assert (code, out, errors) == (0, "turn-1 has ended: ended_by_operator; children: 1\n", "")
        assert bench.reports.of("report_ended_turn") == [("turn-1", "ada@example", "left over by a test run")]
        outcome = (await waits).of("call-1")
        assert outcome.status.message == "The turn ended before there was an answer."
        closed = event_named(bench.sidecar, outcome.child_id, "closed")
        assert (closed.actor, closed.details()["close_reason"]) == ("operator", "ended_by_operator")
        (routing,) = kept(bench.sidecar, RoutingRecord)
        assert routing.close_reason == "ended_by_operator"
        assert (await failure_of(bench.sidecar.dispatch(bound, "ask_shop"))).reason == "TURN_ENDED"


async def test_ending_again_says_how_it_ended_and_an_unknown_turn_is_refused() -> None:
    """For programs, too; the refusal says what to do, and nothing was changed."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        bound = await bench.sidecar.bind(turn_id="turn-1")
        ended = await bench.sidecar.end(bound, narration="Here you are.")
        code, again = await desk.object(end_turn, wish("turn-1"))
        refused, out, errors = await desk.say(end_turn, wish("turn-2"), as_json=True)

    assert (code, again) == (0, {"turn_id": "turn-1", "ended_before": True, "close_reason": "ended", "child_count": 0})
    assert word(ended.routing_decision, "close_reason") == "ended"
    assert (refused, json.loads(out)["problem"]["reason"]) == (1, "UNKNOWN_TURN")
    assert "next: `sidecar turns --state open`" in errors


async def test_only_an_operator_who_means_it_ends_a_turn() -> None:
    """A viewer and a watchdog may not; who is asked and says no, or cannot be asked, has changed nothing."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        bound = await bench.sidecar.bind(turn_id="turn-1")
        for desk.role in ("viewer", "automation"):
            code, _, errors = await desk.say(end_turn, wish("turn-1"))
            assert (code, "(ROLE_REQUIRED)" in errors) == (2, True)
        desk.role = "operator"
        for ask in (Answers(yes=False), None):
            code, _, errors = await desk.say(end_turn, wish("turn-1", yes=False), ask=ask)
            assert (code, "The running calls of turn-1 will be stopped" in errors) == (2, ask is None)
        assert word((await bench.sidecar.end(bound)).routing_decision, "close_reason") == "ended"
        assert bench.reports.of("report_ended_turn") == []


def test_it_is_typed_as_the_other_commands_of_operators_are() -> None:
    """A reason is wanted; without a token nothing is asked."""
    without_reason, said = typed("turn-1", group="end-turn")
    assert (without_reason, "--reason" in said) == (2, True)
    code, said = typed("turn-1", "--reason", "left over", "--yes", target="unix:/nowhere.sock", group="end-turn")
    assert (code, "there is no role token" in said) == (2, True)
