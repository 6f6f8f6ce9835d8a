"""Promises about what is on record: contracts, events, routing decisions."""

import re
from collections.abc import Iterator
from typing import Final

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.executing.events import ChildEvent
from tests.support.simulation.clients import Asked
from tests.support.simulation.facts import INSTANT, Facts
from tests.support.simulation.world import LIFETIME

SHORT: Final = {
    "agent.subagent_created": "C",
    "agent.subagent_started": "S",
    "agent.subagent_attempt": "a",
    "agent.attempt_repeated": "r",
    "agent.taken_over": "t",
    "agent.tool_refused": "n",
    "agent.data_withheld": "n",
    "agent.budget_stopped": "n",
    "agent.events_left_out": "n",
    "agent.subagent_suspended": "n",
    "agent.subagent_continues": "n",
    "agent.effect_sent": "n",
    "agent.effect_settled": "n",
    "agent.subagent_waiting_for_merge": "W",
    "agent.subagent_failed": "F",
    "agent.integration_accepted": "A",
    "agent.integration_failed": "I",
    "agent.subagent_closed": "X",
}
LEGAL: Final = re.compile(r"CS[anrt]*(?:F|W[AI])X\Z")


def contracts_come_first(facts: Facts) -> Iterator[str]:
    """No sub-agent runs before its contract is durable."""
    for run in facts.seen.runner.runs:
        if not run.durable:
            yield f"{run.key}: {run.request.child_id} ran before its contract was durable"


def child_logs_are_legal(facts: Facts) -> Iterator[str]:
    """Every child on record has its events in order, without gaps, closed exactly once and at the end."""
    for child_id, opened in facts.opened.items():
        events = facts.events.get(child_id, [])
        names = "".join(SHORT.get(event.name, "?") for event in events)
        if not LEGAL.match(names):
            yield f"{child_id} of {opened.dispatch_id}/{opened.call_id}: events {names}"
        if [event.sequence for event in events] != list(range(1, len(events) + 1)):
            yield f"{child_id}: sequences {[event.sequence for event in events]}"
    for child_id in facts.events:
        if child_id not in facts.opened:
            yield f"{child_id}: events without a contract"


def one_routing_record_per_turn(facts: Facts) -> Iterator[str]:
    """Every turn that was bound ends, on record, once."""
    for turn_id in facts.seen.watched.bound:
        if turn_id not in facts.routing:
            yield f"{turn_id} was bound and never ended"
    routed = [record.turn_id for (record,) in facts.seen.recorder.of("turn_routed")]
    if sorted(routed) != sorted(facts.routing):
        yield f"reported {sorted(routed)}, on record {sorted(facts.routing)}"


def what_is_told_is_durable(facts: Facts) -> Iterator[str]:
    """No outcome leaves before it is on record, and none differs from what is on record."""
    durable = facts.seen.store.durable_at
    for dispatch in facts.dispatches:
        by_id = {call.spec.call_id: call for call in dispatch.calls}
        for listener in dispatch.listeners:
            if listener.result is None:
                continue
            at = listener.frames[-1][0]
            for outcome in listener.result.outcomes:
                call = by_id[outcome.call_id]
                if outcome.outcome is Outcome.NOT_STARTED or outcome.reason == "RECORD_UNAVAILABLE":
                    continue
                record_id = f"{dispatch.turn.turn_id}/{dispatch.spec.dispatch_id}/{outcome.call_id}/0"
                if durable.get(record_id, at + 1) > at + INSTANT:
                    yield f"{call.name} was told at {at}, durable at {durable.get(record_id)}"
                elif call.settled is not None and call.settled.outcome != outcome:
                    yield f"{call.name} was told, on record is {call.settled.outcome.outcome}"


def turns_end_after_their_calls(facts: Facts) -> Iterator[str]:
    """When a turn's end is on record, nothing of it runs any more, and nothing begins."""
    for turn_id, calls in facts.of_turns().items():
        ended = facts.seen.store.durable_at[f"{turn_id}/routing"]
        for call in calls:
            for run in call.runs:
                if run.over_at > ended + INSTANT:
                    yield f"{call.name} ran until {run.over_at}, its turn ended at {ended}"


def idle_turns_have_their_time(facts: Facts) -> Iterator[str]:
    """A turn is ended for its parent before its lifetime only if nothing runs in it, and nothing has for long enough.

    If there is no room for another idle turn, it may have been at rest for a moment only.
    """
    tuning, appends = facts.seen.schedule.tuning, facts.seen.store.appends
    for turn_id, record in facts.routing.items():
        calls = facts.of_turns().get(turn_id, [])
        bound = next(iter(facts.asked("bind", turn_id)))
        ended = next(each.submitted_at for each in appends if record in each.records)
        if record.close_reason != "parent_lost" or ended >= (bound.answered_at or 0.0) + LIFETIME:
            continue
        if any(call.routed.reason == "TURN_OVER" for call in calls) and not facts.asked("end", turn_id):
            yield f"{turn_id}: ended at {ended} as idle, and calls were stopped for it"
        busy = [bound.answered_at or 0.0, *(call.decided_at for call in calls if call.decided_at is not None)]
        wanted = 0.0 if tuning.idle_turns == 1 else tuning.idle_for
        if ended < max(busy) + wanted - INSTANT:
            yield f"{turn_id}: ended at {ended}, at rest since {max(busy)}, idle turns live {tuning.idle_for}"


def verdicts_decide(facts: Facts) -> Iterator[str]:
    """A child is completed if its answer was taken, and failed in every other case."""
    for call in facts.calls():
        child_id = call.routed.child_id
        events = facts.events.get(child_id or "", [])
        if child_id is None or not events or events[-1].name != "agent.subagent_closed":
            continue
        completed = events[-1].details()["final_status"] == "completed"
        if any(
            asked.detail == call.spec.call_id for asked in _closings(facts, call.dispatch.spec.dispatch_id, sure=False)
        ):
            continue  # closed, but the store did not say so: either is right
        wanted = _completed(facts, call.routed.outcome, events, facts.routing[call.turn.turn_id].close_reason)
        if completed != wanted:
            yield f"{call.name}: final_status completed is {completed}"


def _completed(facts: Facts, outcome: Outcome, events: list[ChildEvent], close_reason: str) -> bool:
    child_id = events[0].child_id
    opened = facts.opened[child_id]
    spoken = {
        integration.child_id: integration.verdict.value
        for asked in facts.asked("end", opened.turn_id)
        if asked.about is not None and (asked.refused is None or asked.refused.reason == "STORE_UNAVAILABLE")
        for integration in asked.about.integrations
    }
    closed = any(asked.detail == opened.call_id for asked in _closings(facts, opened.dispatch_id))
    if outcome not in (Outcome.SUCCEEDED, Outcome.DEGRADED):
        return False
    if closed:
        return True
    if child_id in spoken:
        return bool(spoken[child_id] != "rejected")
    automatic = '"close_on_completion":true' in opened.context_json
    return automatic and close_reason == "ended"


def _closings(facts: Facts, dispatch_id: str, *, sure: bool = True) -> list[Asked]:
    """Return the requests that closed a child, or those of which nobody knows."""
    asked = facts.asked("close", dispatch_id)
    if sure:
        return [each for each in asked if each.answer is not None]
    answered = [each.detail for each in asked if each.answer is not None]
    unsure = [each for each in asked if each.refused is None or each.refused.reason == "STORE_UNAVAILABLE"]
    return [each for each in unsure if each.detail not in answered]
