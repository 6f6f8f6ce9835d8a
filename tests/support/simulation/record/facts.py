"""What is on record after a run, sorted; read from the journal alone. Nothing here says what should be."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import (
    AttemptRecorded,
    CallSettled,
    ChildOpened,
    DispatchOpened,
    DispatchTaken,
    QuestionAnswered,
    Record,
    ScoreRecorded,
    TurnEnded,
)
from tests.support.simulation.record.clients import Heard, Told
from tests.support.simulation.record.schedule import RecordDispatch, RecordTurn
from tests.support.simulation.record.world import RecordSeen
from tests.support.simulation.store import Kept

INSTANT = 1e-6
"""Seconds within which two things happen at the same time."""
UNRECORDED = "RECORD_UNAVAILABLE"
"""The reason that is told in the place of an outcome that could not be recorded in time."""


@dataclass(slots=True)
class DispatchOnRecord:
    """One dispatch; `settled` by call, in order of revisions."""

    opened: Kept
    taken: list[Kept] = field(default_factory=list)
    settled: dict[str, list[CallSettled]] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)

    def standing(self, call_id: str) -> CallOutcome | None:
        """Return the outcome that stands of a call."""
        revisions = self.settled.get(call_id)
        return max(revisions, key=lambda each: each.revision).outcome if revisions else None


@dataclass(slots=True)
class RecordFacts:
    """One run."""

    seen: RecordSeen
    dispatches: dict[str, DispatchOnRecord] = field(default_factory=dict)
    opened: dict[str, ChildOpened] = field(default_factory=dict)
    events: dict[str, list[Kept]] = field(default_factory=dict)
    ends: dict[str, list[Kept]] = field(default_factory=dict)
    routing: dict[str, list[RoutingRecord]] = field(default_factory=dict)
    answered: dict[str, list[Kept]] = field(default_factory=dict)

    def specs(self) -> Iterator[tuple[RecordTurn, RecordDispatch]]:
        """Yield what clients were to send."""
        for turn in self.seen.schedule.turns:
            for dispatch in turn.dispatches:
                yield turn, dispatch

    def was_robbed(self, spec: RecordDispatch, instance: str, at: float) -> bool:
        """Say whether a dispatch was an instance's once, and another's at a time."""
        dispatch = self.dispatches.get(spec.dispatch_id)
        if dispatch is None:
            return False
        owners = [str(kept.instance) for kept in (dispatch.opened, *dispatch.taken) if kept.at <= at]
        return instance in owners and owners[-1] != instance

    def heard(self, dispatch_id: str) -> list[Heard]:
        """Return the streams of one dispatch."""
        return [each for each in self.seen.watch.heard if each.dispatch_id == dispatch_id]

    def told(self, what: str) -> list[Told]:
        """Return what clients asked for."""
        return [each for each in self.seen.watch.told if each.what == what]


def turn_of(record: Record) -> str:
    """Return whose turn a record is of."""
    return record.run_id if isinstance(record, ChildEvent) else record.turn_id


def event_of(kept: Kept) -> ChildEvent:
    """Return the event that was kept."""
    assert isinstance(kept.record, ChildEvent)
    return kept.record


def record_facts_of(seen: RecordSeen) -> RecordFacts:
    """Sort what was kept."""
    facts = RecordFacts(seen)
    for kept in seen.disk.journal:
        match kept.record:
            case DispatchOpened(dispatch_id=dispatch_id):
                facts.dispatches[dispatch_id] = DispatchOnRecord(kept)
            case DispatchTaken(dispatch_id=dispatch_id):
                facts.dispatches[dispatch_id].taken.append(kept)
            case CallSettled(dispatch_id=dispatch_id, outcome=outcome) as settled:
                facts.dispatches[dispatch_id].settled.setdefault(outcome.call_id, []).append(settled)
            case ChildOpened(child_id=child_id, dispatch_id=dispatch_id) as opened:
                facts.opened[child_id] = opened
                facts.dispatches[dispatch_id].children.append(child_id)
            case ChildEvent(child_id=child_id):
                facts.events.setdefault(child_id, []).append(kept)
            case TurnEnded(turn_id=turn_id):
                facts.ends.setdefault(turn_id, []).append(kept)
            case RoutingRecord() as routing:
                facts.routing.setdefault(routing.turn_id, []).append(routing)
            case QuestionAnswered(child_id=child_id):
                facts.answered.setdefault(child_id, []).append(kept)
            case AttemptRecorded() | ScoreRecorded():
                pass
    return facts
