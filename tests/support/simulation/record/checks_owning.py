"""Promises about children and turns over all sidecars: each closed once, each call settled once, nobody robbed."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from sidecar.core.executing.records import ChildOpened, DispatchOpened, DispatchTaken, TurnEnded
from tests.support.simulation.checks_records import SHORT
from tests.support.simulation.record.facts import INSTANT, RecordFacts, event_of, turn_of
from tests.support.simulation.record.fleet import IDLE, LIFETIME
from tests.support.simulation.schedule import CallKind
from tests.support.simulation.store import Append, Kept

LEGAL: Final = re.compile(r"CS[anrt]*(?:F|W[AI])X\Z")
LOOKED_BEFORE: Final = 2.5
"""Seconds before a takeover in which its owner may have been seen dead."""
DEFECTS: Final = ("child_defect", "call_defect")


def nothing_crashes(facts: RecordFacts) -> Iterator[str]:
    """No deadlock, no stray exception in any sidecar, no anomaly that stands for a defect."""
    if facts.seen.crash:
        yield facts.seen.crash
    yield from facts.seen.strays
    for sidecar in facts.seen.sidecars:
        yield from (f"{sidecar.instance}: {stray}" for stray in sidecar.spawner.strays)
        for kind, detail, *_ in sidecar.recorder.of("anomaly"):
            if kind in DEFECTS:
                yield f"{sidecar.instance}: {kind}: {detail}"


def nothing_is_left(facts: RecordFacts) -> Iterator[str]:
    """In the end no task runs at those that live, and no grant opens anything anywhere."""
    yield from facts.seen.left_over


def every_child_closes_once(facts: RecordFacts) -> Iterator[str]:
    """Every child on record has its events in a legal order, without gaps, closed once and at the end."""
    for child_id in facts.opened:
        events = [event_of(kept) for kept in facts.events.get(child_id, [])]
        names = "".join(SHORT.get(event.name, "?") for event in events)
        if not LEGAL.match(names):
            yield f"{child_id}: events {names}"
        if [event.sequence for event in events] != list(range(1, len(events) + 1)):
            yield f"{child_id}: sequences {[event.sequence for event in events]}"
    for child_id in facts.events:
        if child_id not in facts.opened:
            yield f"{child_id}: events without a contract"


def every_call_settles_once(facts: RecordFacts) -> Iterator[str]:
    """Each call of a dispatch on record has one outcome, or a second one that says it could not be recorded."""
    for _, spec in facts.specs():
        dispatch = facts.dispatches.get(spec.dispatch_id)
        if dispatch is None:
            continue
        for call in spec.calls:
            revisions = dispatch.settled.get(call.call_id, [])
            allowed = [[0], [1], [0, 1], [1, 0]]
            if [each.revision for each in revisions] not in allowed:
                yield f"{call.key}: settled as {[(each.revision, each.outcome) for each in revisions]}"
            if any(each.revision and each.outcome.reason != "RECORD_UNAVAILABLE" for each in revisions):
                yield f"{call.key}: a second outcome: {[each.outcome for each in revisions]}"
        if len({facts.opened[child_id].call_id for child_id in dispatch.children}) != len(dispatch.children):
            yield f"{spec.dispatch_id}: two children for one call"


def turns_end_once(facts: RecordFacts) -> Iterator[str]:
    """Every turn with anything on record has one end and one routing decision, with each call once, as it settled."""
    turns = {turn_of(kept.record) for kept in facts.seen.disk.journal}
    for turn_id in sorted(turns):
        ends, routing = facts.ends.get(turn_id, []), facts.routing.get(turn_id, [])
        if len(ends) != 1 or len(routing) != 1:
            yield f"{turn_id}: {len(ends)} ends, {len(routing)} routing decisions"
            continue
        settled = {
            (dispatch_id, call_id): revisions
            for dispatch_id, dispatch in facts.dispatches.items()
            if turn_of(dispatch.opened.record) == turn_id
            for call_id, revisions in dispatch.settled.items()
        }
        routed = {(call.dispatch_id, call.call_id): call for call in routing[0].calls}
        if len(routed) != len(routing[0].calls) or sorted(routed) != sorted(settled):
            yield f"{turn_id}: routed {sorted(routed)}, settled {sorted(settled)}"
            continue
        for key, call in routed.items():  # a second revision may come between laying the end out and writing it
            known = [(each.outcome.outcome, each.outcome.child_id) for each in settled[key]]
            if (call.outcome, call.child_id) not in known:
                yield f"{turn_id}: {key} was routed as {call.outcome} of {call.child_id}, settled as {known}"


def attempts_are_bounded(facts: RecordFacts) -> Iterator[str]:
    """At most 1 + max_retries attempts of a call, all sidecars together, none with the number of another.

    They ascend, but for those of a sidecar that was stopped before it made an attempt which is on record: it makes that
    one when it goes on, not knowing yet that the dispatch is another's by now, which counted it as made.
    """
    for _, spec in facts.specs():
        for call in spec.calls:
            if call.kind is not CallKind.FIT or call.card is None:
                continue
            runs = [run for run in facts.seen.hosts.runs if run.key == call.key]
            numbers = [run.request.attempt for run in runs]
            if len(numbers) > 1 + call.card.definition.limits.max_retries or len(set(numbers)) != len(numbers):
                yield f"{call.key}: attempts {numbers}, {call.card.definition.limits.max_retries} retries allowed"
            for place, run in enumerate(runs):
                instance = facts.seen.asked_by[run.request.grant]
                after = [each for each in runs[:place] if each.request.attempt > run.request.attempt]
                makers = [facts.seen.asked_by[each.request.grant] for each in after]
                if instance in makers or (after and not facts.was_robbed(spec, instance, run.began_at)):
                    yield f"{call.key}: attempts {numbers}, and {run.request.attempt} of {instance} comes too late"


def contracts_come_first(facts: RecordFacts) -> Iterator[str]:
    """No sub-agent runs before its contract is durable."""
    for run in facts.seen.hosts.runs:
        if not run.durable:
            yield f"{run.key}: {run.request.child_id} ran before its contract was durable"


def answers_are_somebodys(facts: RecordFacts) -> Iterator[str]:
    """What a call is told to have said is what one attempt of it said, whole."""
    for _, spec in facts.specs():
        dispatch = facts.dispatches.get(spec.dispatch_id)
        for call in spec.calls:
            outcome = dispatch.standing(call.call_id) if dispatch else None
            if outcome is None or not outcome.answer.narration:
                continue
            said = [
                "".join(step.text for step in run.script.steps if step.do == "narrate")
                for run in facts.seen.hosts.runs
                if run.key == call.key
            ]
            if outcome.answer.narration not in said:
                yield f"{call.key}: answered {outcome.answer.narration!r}, its attempts said {said}"


def data_dies_with_its_sidecar(facts: RecordFacts) -> Iterator[str]:
    """A sub-agent whose sidecar is gone, or has lost its call to another, gets no more data."""
    over: dict[str, float] = {sidecar.instance: sidecar.over_at for sidecar in facts.seen.sidecars}
    for run in facts.seen.hosts.runs:
        owner = facts.seen.asked_by[run.request.grant]
        for tool in run.tools:
            released = tool.answer not in ("", "unavailable") and not tool.answer.isupper()
            if released and tool.ended_at is not None and tool.ended_at > over[owner] + INSTANT:
                yield f"{run.key}: got data at {tool.ended_at}, its sidecar was gone at {over[owner]}"


# --- whose it is


def takeovers_have_reasons(facts: RecordFacts) -> Iterator[str]:
    """A dispatch is taken from an owner that is dead, or by whoever ends the turn or closes the child; epochs count."""
    for dispatch_id, dispatch in facts.dispatches.items():
        owner = dispatch.opened.instance
        for epoch, kept in enumerate(dispatch.taken, 1):
            taken = kept.record
            assert isinstance(taken, DispatchTaken)
            if taken.epoch != epoch:
                yield f"{dispatch_id}: epoch {taken.epoch} after {epoch - 1}"
            append = _append_of(facts, kept)
            if kept.instance == owner:
                yield f"{dispatch_id}: {owner} takes what it has"
            elif not _may_close(append) and _lived(facts, owner, append.submitted_at):
                yield f"{dispatch_id}: taken from {owner}, which was alive at {append.submitted_at}"
            owner = kept.instance


def takeovers(facts: RecordFacts) -> Counter[str]:
    """Count the dispatches that another sidecar went on with, by what had happened to their owner."""
    by_instance = {str(sidecar.instance): sidecar for sidecar in facts.seen.sidecars}
    counted: Counter[str] = Counter()
    for dispatch in facts.dispatches.values():
        owner = by_instance[dispatch.opened.instance]
        for kept in dispatch.taken:
            if _may_close(_append_of(facts, kept)):
                counted["taken over to be closed"] += 1
            elif owner.over_at <= kept.at:
                counted["taken over from a dead sidecar"] += 1
            elif owner.process.was_paused(kept.at):
                counted["taken over from a paused sidecar"] += 1
            else:
                counted["taken over from one that has just gone on"] += 1
            owner = by_instance[kept.instance]
    return counted


def nobody_closes_for_the_living(facts: RecordFacts) -> Iterator[str]:
    """A turn is closed for its parent by a sidecar that knows it; or its owners are dead."""
    for turn_id, ends in facts.ends.items():
        for kept in ends:
            end = kept.record
            assert isinstance(end, TurnEnded)
            if end.close_reason != "parent_lost":
                continue
            append = _append_of(facts, kept)
            asked = [told.instance for told in facts.seen.watch.told if told.turn_id == turn_id]
            asked += [each.instance for each in _before(facts, append) if turn_id in each.turn_ids]
            owners = _owners_before(facts, turn_id, append.submitted_at)
            robbed = [owner for owner in owners if owner != kept.instance]
            robbed = [owner for owner in robbed if _lived(facts, owner, append.submitted_at)]
            if robbed and kept.instance not in asked and kept.instance not in owners:
                yield f"{turn_id}: closed by {kept.instance}, and {robbed} lived"


def closed_for_lost_only_when_due(facts: RecordFacts) -> Iterator[str]:
    """A turn is closed for its parent when its time is up, by a clock that may be wrong, at a stop, or when it is idle.

    It is idle where nobody has asked for it for long, and where no other sidecar that lives worked in it last.
    """
    if facts.seen.schedule.clock_jumps:
        return
    for turn_id, ends in facts.ends.items():
        bound = [told.asked_at for told in facts.told("bind") if told.turn_id == turn_id]
        for kept in ends:
            end = kept.record
            assert isinstance(end, TurnEnded)
            stopping = next(each.stops_at for each in facts.seen.sidecars if each.instance == kept.instance)
            if end.close_reason != "parent_lost" or not bound or kept.at >= min(bound[0] + LIFETIME - 1.0, stopping):
                continue
            asked = [told for told in facts.seen.watch.told if told.instance == kept.instance]
            if any(told.turn_id == turn_id and kept.at - (IDLE - 1.0) < told.asked_at <= kept.at for told in asked):
                yield f"{turn_id}: closed at {kept.at} by {kept.instance}, which was asked for it just before"
            append = _append_of(facts, kept)
            worked = _worked_last(facts, turn_id, append.submitted_at)
            if worked not in {None, kept.instance} and _lived(facts, str(worked), append.submitted_at):
                yield f"{turn_id}: closed at {kept.at} by {kept.instance}, and {worked} lived and worked in it last"


def _worked_last(facts: RecordFacts, turn_id: str, at: float) -> str | None:
    """Return whose the newest dispatch of a turn was."""
    owners: list[tuple[int, str]] = []
    for dispatch in facts.dispatches.values():
        opened = dispatch.opened.record
        assert isinstance(opened, DispatchOpened)
        if opened.turn_id == turn_id and dispatch.opened.at < at:
            taken = [kept for kept in dispatch.taken if kept.at < at]
            owners.append((opened.first_step, str((taken or [dispatch.opened])[-1].instance)))
    return max(owners)[1] if owners else None


def the_dead_and_the_robbed_are_refused(facts: RecordFacts) -> Iterator[str]:
    """Whoever lost a dispatch, or is gone, puts nothing of it on record any more."""
    gone = {sidecar.instance: sidecar.over_at for sidecar in facts.seen.sidecars}
    owner: dict[str, str] = {}
    for kept in facts.seen.disk.journal:
        if kept.at > gone[kept.instance] + INSTANT:
            yield f"{kept.record.record_id} of {kept.instance}, which was gone"
        dispatch_id = getattr(kept.record, "dispatch_id", None)
        if isinstance(kept.record, ChildOpened | DispatchTaken) or dispatch_id is not None:
            assert dispatch_id is not None
            if isinstance(kept.record, DispatchTaken):
                owner[dispatch_id] = kept.instance
            elif owner.setdefault(dispatch_id, kept.instance) != kept.instance:
                yield f"{kept.record.record_id} of {kept.instance}, {dispatch_id} is {owner[dispatch_id]}'s"


def _append_of(facts: RecordFacts, kept: Kept) -> Append:
    return next(
        append
        for append in facts.seen.disk.appends
        if append.instance == kept.instance and any(record == kept.record for record in append.records)
    )


def _before(facts: RecordFacts, append: Append) -> list[Append]:
    return [each for each in facts.seen.disk.appends if each.submitted_at < append.submitted_at]


def _may_close(append: Append) -> bool:
    """Say whether a group ends a turn or closes a child."""
    return any(
        isinstance(record, TurnEnded) or getattr(record, "name", "") == "agent.subagent_closed"
        for record in append.records
    )


def _lived(facts: RecordFacts, instance: str, until: float) -> bool:
    """Say whether an instance counted as alive all the time before `until`."""
    begin = max(0.0, until - LOOKED_BEFORE)
    moments = [begin + (until - begin) * part / 20 for part in range(20)] + [until]
    return all(facts.seen.fleet.alive_at(instance, at) for at in moments)


def _owners_before(facts: RecordFacts, turn_id: str, at: float) -> list[str]:
    owners = []
    for dispatch in facts.dispatches.values():
        if turn_of(dispatch.opened.record) == turn_id:
            taken = [kept for kept in dispatch.taken if kept.at < at]
            owners.append(str((taken or [dispatch.opened])[-1].instance))
    return owners


def statuses_have_verdicts(facts: RecordFacts) -> Iterator[str]:
    """Only a child whose answer was there is completed."""
    for child_id, events in facts.events.items():
        last = event_of(events[-1])
        if last.name != "agent.subagent_closed":
            continue
        completed = json.loads(last.details_json)["final_status"] == "completed"
        accepted = any(event_of(kept).name == "agent.integration_accepted" for kept in events)
        if completed != accepted:
            yield f"{child_id}: completed is {completed}, its output was taken: {accepted}"
