"""What is on record, as plain objects, and the rules of appending to it: the reference for every database."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct, field

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import CLOSED, ChildEvent
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
from sidecar.core.identifiers import AttemptId, ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId

Undo = Callable[[], object]


class DispatchKept(Struct):
    """One dispatch; `settled` by call and revision, `owners` by epoch."""

    opened: DispatchOpened
    owners: list[InstanceId]
    settled: dict[tuple[str, int], CallSettled] = field(default_factory=dict)

    @property
    def owner(self) -> InstanceId:
        """Who may go on with it."""
        return self.owners[-1]

    @property
    def epoch(self) -> int:
        """How often it was taken."""
        return len(self.owners) - 1

    def outcomes(self) -> Iterator[CallSettled]:
        """Return what stands of each call."""
        newest = {call_id: settled for (call_id, _), settled in sorted(self.settled.items(), key=lambda each: each[0])}
        return iter(newest.values())


class ChildKept(Struct):
    """One child with its events."""

    opened: ChildOpened
    events: list[ChildEvent] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        """Say whether nothing can come any more."""
        return bool(self.events) and self.events[-1].name == CLOSED


class TurnKept(Struct):
    """Everything of one turn."""

    dispatches: dict[DispatchId, DispatchKept] = field(default_factory=dict)
    children: dict[ChildId, ChildKept] = field(default_factory=dict)
    attempts: dict[AttemptId, AttemptRecorded] = field(default_factory=dict)
    ended: TurnEnded | None = None
    routing: RoutingRecord | None = None


class RecordInMemory(Struct):
    """The record; several instances may append to one.

    Attributes:
        kept: most turns; the oldest are forgotten first.
        turn_of, last_called: what would else be looked for in all turns.
    """

    kept: int = 20_000
    turns: OrderedDict[TurnId, TurnKept] = field(default_factory=OrderedDict)
    records: OrderedDict[str, Record] = field(default_factory=OrderedDict)
    turn_of: dict[ChildId, TurnId] = field(default_factory=dict)
    last_called: OrderedDict[EpisodeId, tuple[Slot, ...]] = field(default_factory=OrderedDict)

    def append(self, records: Sequence[Record], instance: InstanceId) -> None:
        """Append a group, whole or not at all. Raises `RecordConflict`."""
        undo: list[Undo] = []
        new = [record for record in records if record.record_id not in self.records]
        try:
            for record in records:
                self._append(record, instance, undo)
        except RecordConflict:
            for back in reversed(undo):
                back()
            raise
        for record in new:
            self._index(record)
        while len(self.turns) > self.kept:
            self.forget(next(iter(self.turns)))

    def forget(self, turn_id: TurnId) -> None:
        """Forget a turn."""
        turn = self.turns.pop(turn_id)
        gone: list[Record] = [each.opened for each in turn.dispatches.values()]
        gone += [settled for each in turn.dispatches.values() for settled in each.settled.values()]
        for child in turn.children.values():
            gone += [child.opened, *child.events]
        gone += turn.attempts.values()
        gone += [each for each in (turn.ended, turn.routing) if each is not None]
        for record in gone:
            self.records.pop(record.record_id, None)
        for child_id in turn.children:
            self.turn_of.pop(child_id, None)

    def _index(self, record: Record) -> None:
        if isinstance(record, ChildOpened):
            self.turn_of[record.child_id] = record.turn_id
        elif isinstance(record, RoutingRecord) and record.called:
            self.last_called[record.episode_id] = record.called
            self.last_called.move_to_end(record.episode_id)
            while len(self.last_called) > self.kept:
                self.last_called.popitem(last=False)

    def _append(  # noqa: PLR0912  one branch for each kind
        self, record: Record, instance: InstanceId, undo: list[Undo]
    ) -> None:
        there = self.records.get(record.record_id)
        if there is not None:
            if there != record:
                raise conflict(record, "is on record with other contents")
            if isinstance(record, DispatchTaken):
                owners = self.turns[record.turn_id].dispatches[record.dispatch_id].owners
                _refuse_if(owners[record.epoch] != instance, record, "is of another sidecar, which was first")
            return
        turn = self._turn(_turn_id(record), undo)
        match record:
            case DispatchOpened():
                _refuse_if(turn.ended is not None, record, "came after the end of its turn")
                turn.dispatches[record.dispatch_id] = DispatchKept(record, [instance])
                undo.append(partial(turn.dispatches.pop, record.dispatch_id))
            case DispatchTaken():
                self._take(record, turn, instance, undo)
            case ChildOpened():
                _refuse_if(turn.ended is not None, record, "came after the end of its turn")
                _owned(record, turn, record.dispatch_id, instance)
                steps = {child.opened.step_idx for child in turn.children.values()}
                _refuse_if(record.step_idx in steps, record, "takes a step that another child has")
                turn.children[record.child_id] = ChildKept(record)
                undo.append(partial(turn.children.pop, record.child_id))
            case ChildEvent():
                self._append_event(record, turn, instance, undo)
            case AttemptRecorded():
                _owned(record, turn, record.dispatch_id, instance)
                turn.attempts[record.attempt_id] = record
                undo.append(partial(turn.attempts.pop, record.attempt_id))
            case CallSettled():
                settled = _owned(record, turn, record.dispatch_id, instance).settled
                settled[record.outcome.call_id, record.revision] = record
                undo.append(partial(settled.pop, (record.outcome.call_id, record.revision)))
            case QuestionAnswered():
                _refuse_if(record.child_id not in turn.children, record, "is of a child that is not on record")
            case ScoreRecorded():
                _refuse_if(record.dispatch_id not in turn.dispatches, record, "is of a dispatch that is not on record")
            case TurnEnded():
                open_ones = any(not child.closed for child in turn.children.values())
                _refuse_if(open_ones, record, "came while a child of the turn is not closed")
                turn.ended = record
                undo.append(partial(setattr, turn, "ended", None))
            case RoutingRecord():
                turn.routing = record
                undo.append(partial(setattr, turn, "routing", None))
        self.records[record.record_id] = record
        undo.append(partial(self.records.pop, record.record_id))

    def _turn(self, turn_id: TurnId, undo: list[Undo]) -> TurnKept:
        if turn_id not in self.turns:
            self.turns[turn_id] = TurnKept()
            undo.append(partial(self.turns.pop, turn_id))
        return self.turns[turn_id]

    def _take(self, record: DispatchTaken, turn: TurnKept, instance: InstanceId, undo: list[Undo]) -> None:
        dispatch = turn.dispatches.get(record.dispatch_id)
        if dispatch is None or record.epoch != dispatch.epoch + 1:
            raise conflict(record, "is not the next owner of a dispatch that is on record")
        dispatch.owners.append(instance)
        undo.append(dispatch.owners.pop)

    def _append_event(self, event: ChildEvent, turn: TurnKept, instance: InstanceId, undo: list[Undo]) -> None:
        child = turn.children.get(event.child_id)
        if child is None:
            raise conflict(event, "is of a child that is not on record")
        _owned(event, turn, child.opened.dispatch_id, instance)
        link = child.events[-1].link if child.events else child.opened.link
        follows = event.sequence == len(child.events) + 1 and event.previous_link == link and not child.closed
        _refuse_if(not follows, event, "does not follow the last event of its child")
        child.events.append(event)
        undo.append(child.events.pop)


def conflict(record: Record, why: str) -> RecordConflict:
    """Return the refusal of a record; the id is the caller's own, or made here."""
    return RecordConflict(f"{type(record).__name__} {why}", metadata={"record_id": record.record_id})


def _turn_id(record: Record) -> TurnId:
    return record.run_id if isinstance(record, ChildEvent) else record.turn_id


def _refuse_if(wrong: bool, record: Record, why: str) -> None:
    if wrong:
        raise conflict(record, why)


def _owned(record: Record, turn: TurnKept, dispatch_id: DispatchId, instance: InstanceId) -> DispatchKept:
    dispatch = turn.dispatches.get(dispatch_id)
    if dispatch is None or dispatch.owner != instance:
        raise conflict(record, "is of a dispatch that belongs to another sidecar, or is not on record")
    return dispatch
