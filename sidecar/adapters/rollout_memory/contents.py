"""Rollouts in memory as plain objects, and the rules for changing them. Stores in databases must behave the same."""

from collections.abc import Callable
from datetime import datetime
from itertools import islice, takewhile

import msgspec

from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import LinkedRow, audit_link
from sidecar.operations.rollout.audit.retention import (
    LARGEST_REMOVAL,
    OldAudit,
    check_marker,
    old_audit_of,
)
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import kind_of, text_of
from sidecar.operations.rollout.store.flag_writes import FlagWrite
from sidecar.operations.rollout.store.ports import AuditRow, KeptDefinition, RolloutWrite, StoredAnswer, StoredFlag
from sidecar.operations.rollout.store.replicas import Replica
from sidecar.operations.rollout.store.store_rules import check_whole, existing_write, refuse_other_revision


class RolloutsInMemory(msgspec.Struct):
    """All rollouts; the stores of several replicas may share one object.

    Attributes:
        version: grows with every change of a rollout, a flag or a stored definition.
        last_number: of the audit rows, removed ones included.
        last_link: of the row with that number.
        audit, links: rows by number, in order.
        numbers: of transition events, by their id; an event is stored once, even if its row was removed.
        noted_by: which replica noted first that a transition took effect, by the transition's id.
        shown: the last report of each replica.
        listeners: called after every change.
    """

    version: int = 0
    last_number: int = 0
    last_link: str = ""
    rollouts: dict[Slot, SlotRollout] = msgspec.field(default_factory=dict)
    audit: dict[int, AuditRow] = msgspec.field(default_factory=dict)
    links: dict[int, LinkedRow] = msgspec.field(default_factory=dict)
    numbers: dict[str, int] = msgspec.field(default_factory=dict)
    noted_by: dict[str, InstanceId] = msgspec.field(default_factory=dict)
    answers: dict[str, StoredAnswer] = msgspec.field(default_factory=dict)
    definitions: dict[Digest, KeptDefinition] = msgspec.field(default_factory=dict)
    flags: dict[str, StoredFlag] = msgspec.field(default_factory=dict)
    shown: dict[InstanceId, Replica] = msgspec.field(default_factory=dict)
    markers: list[AuditMarker] = msgspec.field(default_factory=list)
    listeners: list[Callable[[], None]] = msgspec.field(default_factory=list)

    def write(self, change: RolloutWrite) -> None:
        """Store one change as a whole. Raises `RevisionConflict` and `RequestIdReused`."""
        # The same order as in `rollout_tables.writing.write`: a repeated request gets its answer even though its
        # expected revision is outdated by now.
        check_whole(change)
        answer = change.answer
        if answer is not None and existing_write(self.answers.get(answer.request_id), answer):
            return
        stored = self.rollouts.get(change.slot)
        refuse_other_revision(
            f"the rollout of {change.slot}", change.expected_revision, stored.revision if stored else 0
        )
        if isinstance(change, FlagWrite):
            # First of all changes, because it may raise. It also calls the listeners, which only wake tasks: these run
            # after this method, and see the whole change.
            self.set_flag(change.flag, change.flag.revision - 1)
        if change.rollout is not None:
            self.rollouts[change.slot] = change.rollout
            self.version += 1
        # Nothing can fail from here on, and there is no await: the change is stored whole, as in a transaction.
        for event in change.transitions:
            if event.event_id not in self.numbers:
                self.numbers[event.event_id] = self._append_audit(change.slot, event)
        for rollout_event in change.events:
            self._append_audit(change.slot, rollout_event)
        if answer is not None:
            self.answers[answer.request_id] = answer
        self.tell()

    def set_flag(self, flag: StoredFlag, expected_revision: int) -> None:
        """Set or create a flag. Raises `RevisionConflict`."""
        stored = self.flags.get(flag.name)
        refuse_other_revision(f"the flag {flag.name}", expected_revision, stored.revision if stored else 0)
        self.flags[flag.name] = flag
        self.version += 1
        self.tell()

    def keep_definition(self, definition: KeptDefinition) -> None:
        """Store a definition, unless it is stored already."""
        if definition.digest not in self.definitions:
            self.definitions[definition.digest] = definition
            self.version += 1
            self.tell()

    def became_effective(self, event_id: str, at: datetime, instance: InstanceId) -> bool:
        """Record that a transition took effect; return whether `instance` recorded it, now or before."""
        if event_id not in self.numbers or event_id in self.noted_by:
            return self.noted_by.get(event_id) == instance
        self.noted_by[event_id] = instance
        row = self.audit.get(self.numbers[event_id])
        if row is not None:  # retention may have removed the row; the transition itself is kept
            self.audit[row.number] = msgspec.structs.replace(row, effective_at=at)
        return True

    def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the rows that may be removed; see the port."""
        # Only the beginning of the hash chain may be removed, so the first young or unexported row ends the search.
        old = takewhile(lambda row: row.exported and row.body.at < before, self.audit.values())
        return old_audit_of(
            [(row.number, text_of(row.body), self.links[row.number].link) for row in islice(old, LARGEST_REMOVAL)]
        )

    def remove_audit(self, marker: AuditMarker) -> int:
        """Store a marker and remove the rows that it covers. Raises `RecordConflict`."""
        if marker in self.markers:
            return marker.rows  # a repetition: the answer of the first call was lost
        check_marker(marker, self.old_audit(marker.before))
        self.markers.append(marker)
        self.audit = {number: row for number, row in self.audit.items() if number > marker.number}
        self.links = {number: row for number, row in self.links.items() if number > marker.number}
        self.answers = {each: answer for each, answer in self.answers.items() if answer.at >= marker.before}
        return marker.rows

    def tell(self) -> None:
        """Call the listeners."""
        # A copy: a listener may add another one.
        for listener in list(self.listeners):
            listener()

    def _append_audit(self, slot: Slot, body: TransitionEvent | RolloutEvent) -> int:
        self.last_number += 1
        self.audit[self.last_number] = AuditRow(self.last_number, slot, body, None, exported=False)
        row = self.last_number, slot, kind_of(body), text_of(body)
        self.last_link = audit_link(self.last_link, *row)
        self.links[self.last_number] = LinkedRow(*row, self.last_link)
        return self.last_number
