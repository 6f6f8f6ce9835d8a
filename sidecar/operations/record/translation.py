"""Turns the records that operations append into facts of the journal, as long as operations make records.

See `docs/journal.md`, "Remaining steps": once operations make facts, this module goes.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, DispatchTaken, Record
from sidecar.core.identifiers import ChildId, InstanceId, TurnId
from sidecar.core.journal.attempt_frames import packed
from sidecar.core.journal.drafting import Drafted, Drafting, Undraftable
from sidecar.core.journal.encoding import fact_of
from sidecar.core.journal.entries import AttemptFrames, Fact, Stored
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.refusals import Refused
from sidecar.core.journal.rules import decide
from sidecar.core.journal.turn_state import TurnState
from sidecar.core.replaying.frames import attempt_from_json


def turn_of(record: Record) -> TurnId:
    """Return the turn of a record."""
    return record.run_id if isinstance(record, ChildEvent) else record.turn_id


class NewFacts(msgspec.Struct, frozen=True):
    """What a group adds to a turn."""

    facts: tuple[Stored, ...] = ()
    frames: tuple[AttemptFrames, ...] = ()


class TranslatedTurn:
    """A turn, with the records that its facts say: a record that is there already adds nothing.

    Attributes:
        state: after all facts that were taken.
    """

    def __init__(self, turn_id: TurnId, facts: Iterable[Stored] = ()) -> None:
        """Begin with the facts that are on record. Raises `UnreadableFact`."""
        self.state = TurnState(turn_id)
        self._records: dict[str, Record] = {}
        self._taken_by: dict[str, InstanceId] = {}
        self.read(facts)

    def read(self, facts: Iterable[Stored]) -> None:
        """Take facts that are on record. Raises `UnreadableFact`."""
        for stored in facts:
            self._note(self.state.read((stored,)), stored.by)

    def take(self, records: Sequence[Record], by: InstanceId, salt: Callable[[], bytes]) -> NewFacts | str:
        """Take a group, and return what it adds; or return why it is refused, and change nothing.

        Args:
            records: of this turn.
            by: the sidecar that appends them.
            salt: returns bytes for each fact, see `encoding`.
        """
        new = [each for each in dict.fromkeys(records) if not self._is_there(each, by)]
        if not new:
            return NewFacts()
        try:
            drafts = Drafting(self.state.reading, by).drafts(new)
        except Undraftable as why:
            return f"a group of records becomes no facts: {why}"
        head, facts, heads = self.state.head, list[Fact](), list[TurnHead]()
        for drafted in drafts:
            fact = _linked(head, drafted, salt())
            verdict = decide(head, (fact,), ())
            if isinstance(verdict, Refused):
                return verdict.text
            head = verdict.head
            facts.append(fact)
            heads.append(head)
        for fact, after in zip(facts, heads, strict=True):
            self._note(self.state.take(fact, after), by)
        attempts = [each for each in new if isinstance(each, AttemptRecorded)] if facts else []
        self._records |= {each.record_id: each for each in attempts}
        return NewFacts(tuple(each.stored for each in facts), tuple(self._frames(each) for each in attempts))

    def _is_there(self, record: Record, by: InstanceId) -> bool:
        """Say whether a record is on record as it is; a taking that another sidecar was first with is not."""
        there = self._records.get(record.record_id) == record
        return there and (not isinstance(record, DispatchTaken) or self._taken_by[record.record_id] == by)

    def _note(self, records: Iterable[Record], by: InstanceId) -> None:
        for record in records:
            self._records[record.record_id] = record
            if isinstance(record, DispatchTaken):
                self._taken_by[record.record_id] = by

    def _frames(self, attempt: AttemptRecorded) -> AttemptFrames:
        """Return the row of an attempt, without the narration that the outcome of its child says."""
        narration = narration_of(attempt.child_id, self._records.values())
        return AttemptFrames(
            turn_id=attempt.turn_id,
            attempt_id=attempt.attempt_id,
            step=self.state.reading.steps[ChildId(attempt.child_id)],
            number=attempt.number,
            frames=packed(attempt_from_json(attempt.frames_json), narration),
        )


def narration_of(child_id: ChildId, records: Iterable[Record]) -> str:
    """Return the narration of the first outcome of a child among the records of its turn; empty if there is none."""
    settled = (each.outcome for each in records if isinstance(each, CallSettled))
    return next((each.answer.narration for each in settled if each.child_id == child_id), "")


def _linked(head: TurnHead, drafted: Drafted, salt: bytes) -> Fact:
    links = links_of(head, drafted.draft.body)
    if not drafted.follows:  # the rules refuse it, for the reason that they have
        links = (b"",) * len(links)
    return fact_of(msgspec.structs.replace(drafted.draft, salt=salt), links)
