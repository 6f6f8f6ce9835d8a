"""Promises about what clients are told: it is on record, the same for everybody, and it comes."""

import json
from collections.abc import Iterator

from sidecar.core.dispatching.frames import Gap
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.executing.records import CallSettled
from sidecar.core.journal.facts import CallsCancelled
from subagents_errors import CallFailure
from tests.support.simulation.record.clients import Heard
from tests.support.simulation.record.facts import INSTANT, UNRECORDED, RecordFacts, event_of
from tests.support.simulation.record.schedule import Close


def every_client_finishes(facts: RecordFacts) -> Iterator[str]:
    """Whoever goes on asking is told the result of each dispatch, and that the turn has ended."""
    watch = facts.seen.watch
    yield from watch.gave_up
    ended = {told.turn_id for told in facts.told("end") if not told.reason}
    for turn in facts.seen.schedule.turns:
        if turn.close is not Close.LOST and turn.turn_id not in ended:
            yield f"{turn.turn_id} could not be ended: {[told.reason for told in facts.told('end')]}"
    for turn, dispatch in facts.specs():
        settled = watch.settled.get(dispatch.dispatch_id)
        if turn.close in (Close.ENDS, Close.TWICE) and settled != "told" and not _lost_in_time(facts, turn.turn_id):
            yield f"{dispatch.dispatch_id} has no result: {settled}"
    for told in watch.told:
        if told.reason in ("UNKNOWN_CHILD", "DISPATCH_ID_REUSED", "TURN_ID_REUSED", "INTERNAL"):
            yield f"{told.what} of {told.of} was refused: {told.reason}"


def a_dispatch_ends_before_its_turn(facts: RecordFacts) -> Iterator[str]:
    """A client that waits for a dispatch is told what became of its calls, not that the turn was over first.

    A client of the kinds below ends its turn once it has every result, so that no call is stopped by the end.
    """
    for turn, dispatch in facts.specs():
        if turn.close not in (Close.ENDS, Close.TWICE) or _lost_in_time(facts, turn.turn_id):
            continue
        for heard in facts.heard(dispatch.dispatch_id):
            for outcome in heard.result.outcomes if heard.result is not None else ():
                if outcome.reason == CallFailure.TURN_OVER:
                    yield f"{dispatch.dispatch_id}/{outcome.call_id}: only the end of the turn settled it"


def _lost_in_time(facts: RecordFacts, turn_id: str) -> bool:
    """Say whether the turn may have been taken for over: by a clock that was wrong, or it was cut off by a stop."""
    lost = any(routing.close_reason == "parent_lost" for routing in facts.routing.get(turn_id, []))
    cut_off = facts.seen.counted["turn cut off by a stop"]
    return lost and bool(facts.seen.schedule.clock_jumps or cut_off)


def what_is_told_is_on_record(facts: RecordFacts) -> Iterator[str]:
    """No outcome is told before it is on record; and what is on record is what was told."""
    durable = facts.seen.disk.durable_at
    for turn, dispatch in facts.specs():
        for heard in facts.heard(dispatch.dispatch_id):
            if heard.result is None:
                continue
            at = heard.frames[-1][0]
            kept = facts.dispatches.get(dispatch.dispatch_id)
            if kept is None:
                yield f"{dispatch.dispatch_id} was told, and is not on record"
                continue
            for outcome in heard.result.outcomes:
                if outcome.reason == UNRECORDED:
                    continue
                record_id = f"{turn.turn_id}/{dispatch.dispatch_id}/{outcome.call_id}"
                revision = 1 if durable.get(f"{record_id}/1", at + 1) <= at else 0
                if durable.get(f"{record_id}/{revision}", at + 1) > at + INSTANT:
                    yield f"{record_id} was told at {at}, durable at {durable.get(f'{record_id}/{revision}')}"
                elif not _stands(kept.settled.get(outcome.call_id, []), outcome):
                    yield f"{record_id} was told {outcome}, on record is {kept.standing(outcome.call_id)}"


def _stands(revisions: list[CallSettled], outcome: CallOutcome) -> bool:
    """Say whether an outcome is what stands, or what stood before its owner declared that it could not record it."""
    newest = max(revisions, key=lambda each: each.revision)
    declared = newest.revision == 1 and newest.outcome.reason == UNRECORDED
    return newest.outcome == outcome or (declared and any(each.outcome == outcome for each in revisions))


def everybody_is_told_the_same(facts: RecordFacts) -> Iterator[str]:
    """One outcome per call, in emission order, the same at every sidecar; but for what could not be recorded."""
    for _, dispatch in facts.specs():
        known: dict[str, object] = {}
        for heard in facts.heard(dispatch.dispatch_id):
            if heard.result is None:
                continue
            if [each.call_id for each in heard.result.outcomes] != [call.call_id for call in dispatch.calls]:
                yield f"{dispatch.dispatch_id}: told of {[each.call_id for each in heard.result.outcomes]}"
            indexes = [each.emission_index for each in heard.result.outcomes]
            if indexes != sorted(set(indexes)):
                yield f"{dispatch.dispatch_id}: emission indexes {indexes}"
            for outcome in heard.result.outcomes:
                if outcome.reason != UNRECORDED and known.setdefault(outcome.call_id, outcome) != outcome:
                    yield f"{dispatch.dispatch_id}/{outcome.call_id}: told {outcome}, and {known[outcome.call_id]}"


def cancels_are_on_record(facts: RecordFacts) -> Iterator[str]:
    """A cancel that was acknowledged is on record, or the outcome of its call is; the call is not run afterwards.

    Two sidecars may still run it: one that was paused and does not know that the dispatch is another's by now, and any
    if nothing of the dispatch was on record when its call was cancelled: a client may send the dispatch again.
    """
    disk = facts.seen.disk
    cancelled = _cancels_on_record(facts)
    for turn, dispatch in facts.specs():
        opened_at = disk.durable_at.get(f"{turn.turn_id}/{dispatch.dispatch_id}", float("inf"))
        places = {call.call_id: place for place, call in enumerate(dispatch.calls)}
        for told in facts.told("cancel"):
            if not told.answer or told.of != dispatch.dispatch_id or told.over_at < opened_at:
                continue
            call, by = dispatch.calls[places[told.request]], told.over_at + INSTANT
            record_id = f"{turn.turn_id}/{dispatch.dispatch_id}/{call.call_id}"
            settled_at = min(disk.durable_at.get(f"{record_id}/{revision}", float("inf")) for revision in (0, 1))
            cancelled_at = cancelled.get((dispatch.dispatch_id, places[call.call_id]), float("inf"))
            if min(settled_at, cancelled_at) > by:
                yield f"{record_id}: its cancel was acknowledged at {told.over_at}, on record at {cancelled_at}"
            for run in facts.seen.hosts.runs:
                owner = facts.seen.asked_by[run.request.grant]
                if run.key == call.key and run.began_at > by and not facts.was_robbed(dispatch, owner, run.began_at):
                    yield f"{record_id}: ran at {run.began_at}, its cancel was acknowledged at {told.over_at}"


def _cancels_on_record(facts: RecordFacts) -> dict[tuple[str, int], float]:
    """Return when the cancel of a call became durable, by dispatch and place of the call."""
    found: dict[tuple[str, int], float] = {}
    for append in facts.seen.disk.appends:
        for draft in append.drafts:
            durable_at = facts.seen.disk.durable_at.get(draft.salt.hex())
            if isinstance(draft.body, CallsCancelled) and durable_at is not None:
                for place in draft.body.places:
                    key = draft.body.dispatch_id, place
                    found[key] = min(durable_at, found.get(key, durable_at))
    return found


def snapshots_are_on_record(facts: RecordFacts) -> Iterator[str]:
    """Whoever is told that a child exists, or that a dispatch is accepted, can rely on it."""
    durable = facts.seen.disk.durable_at
    turn_of = {dispatch.dispatch_id: turn.turn_id for turn, dispatch in facts.specs()}
    for heard in facts.seen.watch.heard:
        if not heard.frames or heard.frames[0][1].snapshot is None:
            continue
        at, snapshot = heard.frames[0][0], heard.frames[0][1].snapshot
        named = [call.child_id for call in snapshot.calls if call.child_id is not None]
        for record_id in [f"{turn_of[heard.dispatch_id]}/{heard.dispatch_id}", *named]:
            if durable.get(record_id, at + 1) > at + INSTANT:
                yield f"{record_id} was told at {at}, durable at {durable.get(record_id)}"


def ends_are_on_record(facts: RecordFacts) -> Iterator[str]:
    """What the end of a turn, or of a child, was answered with is what is on record."""
    for told in facts.told("end"):
        if told.reason:
            continue
        closed, _ = told.answer
        if facts.routing.get(told.turn_id) != [closed.routing]:
            yield f"{told.turn_id}: told a routing decision that is not the one on record"
        for summary in closed.children:
            if _close_of(facts, summary.child_id) != (summary.final_status, summary.close_reason):
                yield f"{summary.child_id}: told {summary}, on record {_close_of(facts, summary.child_id)}"
    for told in facts.told("close"):
        if not told.reason and _close_of(facts, told.of)[0] != told.answer.final_status:
            yield f"{told.of}: told {told.answer}, on record {_close_of(facts, told.of)}"


def _close_of(facts: RecordFacts, child_id: str) -> tuple[str, str]:
    events = facts.events.get(child_id, [])
    if not events or event_of(events[-1]).name != "agent.subagent_closed":
        return "", ""
    details = json.loads(event_of(events[-1]).details_json)
    return details["final_status"], details["close_reason"]


def streams_declare_their_gaps(facts: RecordFacts) -> Iterator[str]:
    """The snapshot comes first, the result last; sequences ascend one by one, what is missing is declared."""
    for heard in facts.seen.watch.heard:
        frames = [frame for _, frame in heard.frames]
        if frames and [place for place, frame in enumerate(frames) if frame.snapshot is not None] != [0]:
            yield f"{heard.dispatch_id}: a snapshot that is not the first"
        if [place for place, frame in enumerate(frames) if frame.result is not None] not in ([], [len(frames) - 1]):
            yield f"{heard.dispatch_id}: a result that is not the last"
        yield from _holes(heard)


def _holes(heard: Heard) -> Iterator[str]:
    if not heard.frames or heard.frames[0][1].snapshot is None:
        return
    at = heard.frames[0][1].snapshot.sequence
    if at > heard.after:
        yield f"{heard.dispatch_id}: began after {at}, asked for after {heard.after}"
    for _, frame in heard.frames:
        for event in frame.events:
            first = event.what.first if isinstance(event.what, Gap) else event.sequence
            if first != at + 1 or (isinstance(event.what, Gap) and event.what.last != event.sequence):
                yield f"{heard.dispatch_id} at {heard.instance}: event {event.sequence} ({event.what}) after {at}"
            at = event.sequence


def sequences_are_of_one_owner(facts: RecordFacts) -> Iterator[str]:
    """The same sequence is the same event for everybody who listens, wherever."""
    for _, dispatch in facts.specs():
        known: dict[int, object] = {}
        for heard in facts.heard(dispatch.dispatch_id):
            for _, frame in heard.frames:
                for event in frame.events:
                    if isinstance(event.what, Gap):
                        continue
                    if known.setdefault(event.sequence, event.what) != event.what:
                        yield f"{dispatch.dispatch_id}: {event.sequence} is {event.what} and {known[event.sequence]}"
