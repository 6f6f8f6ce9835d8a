"""A store that tests append records to; they become facts where the store decides."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, DispatchTaken, Record
from sidecar.core.executing.records import DispatchOpened as OpenedRecord
from sidecar.core.identifiers import ChildId, InstanceId, TurnId
from sidecar.core.journal.attempt_frames import packed
from sidecar.core.journal.encoding import SALT_BYTES, draft_of, fact_of
from sidecar.core.journal.entries import AttemptFrames, Draft, Fact, Stored
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.refusals import FactRejected
from sidecar.core.journal.rules import decide
from sidecar.core.journal.turn_projection import TurnProjection
from sidecar.core.journal.turn_state import TurnState
from sidecar.core.replaying.frames import attempt_from_json
from sidecar.operations.record.journal_store import JournalStore
from sidecar.operations.record.kept_turn import NewFacts
from tests.support.recording.drafting import Drafted, Drafting, Undraftable


def turn_of(record: Record) -> TurnId:
    """Return the turn of a record."""
    return record.run_id if isinstance(record, ChildEvent) else record.turn_id


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
            if isinstance(verdict, FactRejected):
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
        settled = [each.outcome for each in self._records.values() if isinstance(each, CallSettled)]
        told = (each.answer.narration for each in settled if each.child_id == attempt.child_id)
        narration = next(told, "")
        return AttemptFrames(
            turn_id=attempt.turn_id,
            attempt_id=attempt.attempt_id,
            step=self.state.reading.steps[ChildId(attempt.child_id)],
            number=attempt.number,
            frames=packed(attempt_from_json(attempt.frames_json), narration),
        )


def _linked(head: TurnHead, drafted: Drafted, salt: bytes) -> Fact:
    links = links_of(head, drafted.draft.body)
    if not drafted.follows:  # the rules refuse it, for the reason that they have
        links = (b"",) * len(links)
    return fact_of(msgspec.structs.replace(drafted.draft, salt=salt), links)


def drafts_of(records: Sequence[Record], by: InstanceId) -> list[Draft]:
    """Return the drafts of a turn that begins with these records, without what runners sent."""
    said = [each for each in records if not isinstance(each, AttemptRecorded)]
    drafted = Drafting(TurnProjection(turn_of(said[0])), by).drafts(said)
    return [msgspec.structs.replace(each.draft, salt=os.urandom(SALT_BYTES)) for each in drafted]


class StoreOfRecords(JournalStore):
    """A store that takes records as well as drafts: each group of records becomes drafts when it is handed over."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        """Begin with nothing in memory; the arguments are those of the store that is extended."""
        super().__init__(*parts, **named)
        self._translated: dict[TurnId, tuple[TranslatedTurn, list[Draft]]] = {}
        """With the drafts that were appended to it since it was read: a record that is repeated waits for them."""

    async def append(self, entries: Sequence[Draft | Record]) -> None:
        """Append drafts, or records of one turn. See the port."""
        records = [each for each in entries if not isinstance(each, Draft)]
        if not records:
            await super().append([each for each in entries if isinstance(each, Draft)])
            return
        turn_id, certain = turn_of(records[0]), False
        while True:
            known = self._translated.get(turn_id)
            if known is None:
                certain = certain or not isinstance(records[0], OpenedRecord)
                facts = (await self._journal.facts(turn_id)).facts if certain else ()
                known = self._translated.setdefault(turn_id, (TranslatedTurn(turn_id, facts), []))
            try:
                await super().append(self._drafts(known, records))
            except BaseException as error:
                if self._translated.get(turn_id) is known:
                    del self._translated[turn_id]
                if certain or not isinstance(error, RecordConflict):
                    raise
                certain = True  # what was known here may have been old
            else:
                return

    def _drafts(self, known: tuple[TranslatedTurn, list[Draft]], records: Sequence[Record]) -> list[Draft]:
        turn, appended = known
        taken = turn.take(records, self.instance, partial(os.urandom, SALT_BYTES))
        if isinstance(taken, str):
            raise RecordConflict(taken, metadata={"turn_id": turn.state.turn_id})
        if not taken.facts:
            return list(appended)
        drafts = [draft_of(each) for each in taken.facts]
        drafts[-1] = msgspec.structs.replace(drafts[-1], frames=taken.frames)
        appended += drafts
        return drafts


class MemoryStoreOfRecords(StoreOfRecords, MemoryStore):
    """The same, in memory."""
