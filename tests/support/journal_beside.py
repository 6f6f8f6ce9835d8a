"""A journal beside the record: every group that a record is asked to keep is turned into facts, and decided.

Where the two differ is said in words; nobody has to agree on anything else than ids and contents of records.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from sidecar.adapters.record_memory import RecordInMemory
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, DispatchTaken, Record
from sidecar.core.identifiers import ChildId, InstanceId, TurnId
from sidecar.core.journal import rules
from sidecar.core.journal.attempt_frames import packed, unpacked
from sidecar.core.journal.drafting import Drafted, Drafting, Undraftable
from sidecar.core.journal.encoding import SALT_BYTES, draft_of, fact_of
from sidecar.core.journal.entries import Draft, Fact
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.reading import TurnReading
from sidecar.core.journal.refusals import Refused
from sidecar.core.replaying.frames import attempt_from_json, attempt_to_json

TAKEN_AFTER_THE_END: Final = "dispatch_taken came after the end of its turn"
"""What the journal refuses and the record keeps: an append that was queued while another sidecar ended the turn. It
changes nothing of a turn that has ended."""


class JournalOfTurn:
    """One turn: its facts, where they leave it, and what they say."""

    def __init__(self, turn_id: TurnId) -> None:
        """Begin with no fact."""
        self.turn_id = turn_id
        self.facts: dict[bytes, Fact] = {}
        self.head = TurnHead()
        self.reading = TurnReading(turn_id)
        self.records: dict[str, Record] = {}
        self._made: dict[tuple[str, InstanceId], Fact] = {}

    def decided(self, records: Sequence[Record], by: InstanceId) -> "Decided":
        """Return what becomes of a group; nothing is kept yet."""
        new = [each for each in dict.fromkeys(records) if not self._is_there(each, by)]
        try:
            drafts = Drafting(self.reading, by).drafts(new)
        except Undraftable as why:
            return Decided(self, str(why) or "undraftable")
        again = dict.fromkeys(self._made[each.record_id, by] for each in records if (each.record_id, by) in self._made)
        repeated = rules.decide(self.head, again, self.facts.keys())
        if isinstance(repeated, Refused) or repeated.new:
            return Decided(self, "facts that are on record are not kept as they are")
        head, facts = self.head, list[Fact]()
        for drafted in drafts:
            fact = self._fact(head, drafted)
            decided = rules.decide(head, [fact], self.facts)
            if isinstance(decided, Refused):
                return Decided(self, decided.text)
            head = decided.head
            facts.append(fact)
        return Decided(self, "", head, facts, new)

    def _is_there(self, record: Record, by: InstanceId) -> bool:
        """Say whether a record is on record already, as it is."""
        if isinstance(record, DispatchTaken) and self.records.get(record.record_id) == record:
            return (record.record_id, by) in self._made  # another one's, which was first
        return self.records.get(record.record_id) == record

    def _fact(self, head: TurnHead, drafted: Drafted) -> Fact:
        links = links_of(head, drafted.draft.body)
        if not drafted.follows:
            links = (b"",) * len(links)
        return fact_of(drafted.draft, len(self.facts).to_bytes(SALT_BYTES, "big"), links)

    def keep(self, head: TurnHead, facts: Sequence[Fact], records: Sequence[Record]) -> Iterator[str]:
        """Keep a group that was accepted; yields what the facts say otherwise than its records."""
        self.head = head
        derived: dict[str, Record] = {}
        for fact in facts:
            self.facts[fact.link] = fact
            draft: Draft = draft_of(fact.stored)
            if draft != fact.draft:
                yield f"{draft} is not what was written"
            for record in self.reading.take(draft):
                if record.record_id in derived:
                    yield f"{record.record_id} is derived twice"
                derived[record.record_id] = record
                self._made[record.record_id, draft.by] = fact
        for record in records:
            found = self._frames(record) if isinstance(record, AttemptRecorded) else derived.pop(record.record_id, None)
            if found != record:
                ours, theirs = _differing(found, record), _differing(record, found)
                yield f"{record.record_id}: the facts say {ours}, the record says {theirs}"
            self.records[record.record_id] = record
        yield from (f"{each} is in the facts only" for each in derived)

    def _frames(self, attempt: AttemptRecorded) -> AttemptRecorded:
        """Return what the row of an attempt says, with the narration of its child's outcome."""
        settled = (each for each in self.records.values() if isinstance(each, CallSettled))
        outcome = next((each.outcome for each in settled if each.outcome.child_id == attempt.child_id), None)
        narration = "" if outcome is None else outcome.answer.narration
        child = self.reading.children[self.reading.steps[ChildId(attempt.child_id)]]
        read = unpacked(packed(attempt_from_json(attempt.frames_json), narration), narration)
        return AttemptRecorded(
            attempt.attempt_id,
            child.opened.child_id,
            self.turn_id,
            child.opened.dispatch_id,
            attempt.number,
            attempt_to_json(read),
        )


def _differing(record: Record | None, other: Record | None) -> str:
    """Return the fields of a record that another one has otherwise."""
    if record is None or type(record) is not type(other):
        return repr(record)
    named = {name: (getattr(record, name), getattr(other, name)) for name in record.__struct_fields__}
    return ", ".join(f"{name} {value!r}" for name, (value, others) in named.items() if value != others)


class Decided:
    """What the journal says of one group of one turn; `why` it is refused, or empty."""

    def __init__(
        self,
        journal: JournalOfTurn,
        why: str,
        head: TurnHead | None = None,
        facts: Sequence[Fact] = (),
        records: Sequence[Record] = (),
    ) -> None:
        """Join the parts."""
        self.why = why
        self._journal, self._head, self._facts, self._records = journal, head, facts, records

    def keep(self) -> Iterator[str]:
        """Keep the group. See `JournalOfTurn.keep`."""
        assert self._head is not None
        return self._journal.keep(self._head, self._facts, self._records)


class JournalBeside:
    """The journal of one record, whatever many sidecars append to it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.turns: dict[TurnId, JournalOfTurn] = {}

    def differences(self, records: Sequence[Record], by: InstanceId, *, kept: bool) -> Iterator[str]:
        """Yield where the journal differs from what the record made of a group.

        Args:
            records: of one or more turns; all of them were kept, or none.
            by: the sidecar.
            kept: the record did keep them.
        """
        by_turn: dict[TurnId, list[Record]] = {}
        for record in records:
            by_turn.setdefault(record.run_id if isinstance(record, ChildEvent) else record.turn_id, []).append(record)
        decided = [
            self.turns.setdefault(turn_id, JournalOfTurn(turn_id)).decided(own, by) for turn_id, own in by_turn.items()
        ]
        why = next((each.why for each in decided if each.why), "")
        if kept and why == TAKEN_AFTER_THE_END:
            return
        if kept != (not why):
            ids = [record.record_id for record in records]
            yield f"the record {'kept' if kept else 'refused'} {ids} of {by}, the journal says: {why or 'accepted'}"
        elif kept:
            for each in decided:
                yield from each.keep()


class RecordWithJournal(RecordInMemory):
    """A record in memory with a journal beside it.

    Attributes:
        differences: between the two, up to the first group in which there are any; what comes after is not compared.
    """

    journal: JournalBeside = msgspec.field(default_factory=JournalBeside)
    differences: list[str] = msgspec.field(default_factory=list)

    def append(self, records: Sequence[Record], instance: InstanceId) -> None:
        """Append a group to both."""
        kept = False
        try:
            super().append(records, instance)
            kept = True
        finally:
            if not self.differences:
                self.differences += self.journal.differences(records, instance, kept=kept)
