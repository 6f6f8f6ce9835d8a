"""Lines of the second place: signed statements about running roots, each linked to the previous line.

A line is one JSON object. Its signature covers every other field, so no line can be altered. Its sequence and the hash
of the previous line reveal a removed line. Lines cannot show whether further lines followed the last one.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from enum import StrEnum, unique
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.markers import FactsRemoved, TextsErased
from sidecar.core.signatures import Signer
from sidecar.core.verifying.audit_chain import AuditHead

NO_LINE: Final = "0" * 64
"""The hash of the previous line in the first line."""
NO_CLAIMS: Final[Mapping[int, str]] = MappingProxyType({})


class RootKey(NamedTuple):
    """Identifies a running root: the facts that an instance appended to turns of a day."""

    instance: InstanceId
    day: date


@unique
class LineKind(StrEnum):
    """The kind of statement of a line."""

    CHECKPOINT = "checkpoint"
    """The running root of `instance` and `day` was `root` after `number` facts."""
    RETENTION = "retention"
    """As `CHECKPOINT`; its facts were about to be removed: every turn of `day` had ended before `ended_before`."""
    AUDIT = "audit"
    """The newest row of the audit of rollouts was row `number`, and its link `root`."""
    ERASURE = "erasure"
    """Texts of `number` facts in turns of `day` were to be erased under `marker`. `root`: hash of the facts' links."""
    RESTORED = "restored"
    """An older backup has taken the place of the record: of the running root, `number` facts are left."""
    RESTORED_AUDIT = "restored_audit"
    """An older backup has taken the place of the record: the newest row of the audit is row `number` again."""


OF_ROOTS: Final = frozenset({LineKind.CHECKPOINT, LineKind.RETENTION})
"""Kinds of lines with the state that a running root reached by growing; `RESTORED` states one that it fell back to."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement to sign and store in the second place.

    Attributes:
        ended_before: of a retention only.
        marker: id of the marker of an erasure; of a restored backup, who states it and why.
    """

    kind: LineKind
    instance: InstanceId
    day: date
    number: int
    root: str
    time: datetime
    ended_before: datetime | None = None
    marker: str | None = None


class CheckpointLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line.

    Attributes:
        sequence: from 1, without gaps, per file.
        previous: `line_hash` of the line before; `NO_LINE` in the first.
        key_id: of the key that signed.
        signature: over `signed_bytes`, in hex.
    """

    sequence: int
    previous: str
    kind: LineKind
    instance: InstanceId
    day: date
    number: int
    root: str
    time: datetime
    ended_before: datetime | None = None
    marker: str | None = None
    key_id: str
    signature: str

    def signed_bytes(self) -> bytes:
        """Return what the signature covers: every other field, in order, as JSON, after a prefix of its own."""
        # `signature` is the last field. A field that is added must come before it, or it would not be covered.
        return b"line\x1f" + msgspec.json.encode(msgspec.structs.astuple(self)[:-1])

    @property
    def key(self) -> RootKey:
        """The identity of its running root."""
        return RootKey(self.instance, self.day)

    @property
    def state(self) -> RootState:
        """The state of that root."""
        return RootState(self.instance, self.day, self.number, self.root)


def signed_line(statement: Statement, sequence: int, previous: str, signer: Signer) -> CheckpointLine:
    """Return the line for a statement, signed."""
    fields = msgspec.structs.asdict(statement)
    # The signature covers sequence, previous hash and key id too: a valid line cannot be moved to another position.
    unsigned = CheckpointLine(sequence=sequence, previous=previous, key_id=signer.key_id, signature="", **fields)
    return msgspec.structs.replace(unsigned, signature=signer.sign(unsigned.signed_bytes()))


def line_text(line: CheckpointLine) -> bytes:
    """Return the line in its written form, without its end."""
    return msgspec.json.encode(line)


def line_hash(text: bytes) -> str:
    """Return the hash with which the next line refers to this one; 64 hex digits."""
    return sha256(text).hexdigest()


def line_from(text: bytes) -> CheckpointLine | None:
    """Return the line that a text contains; None if the text is no such line."""
    try:
        return from_json(text, CheckpointLine)
    # A fragment of an interrupted write, or foreign text. The verifier of the lines decides whether it is a finding.
    except DecodeError:
        return None


def checkpoint_of(state: RootState, at: datetime) -> Statement:
    """Return the statement about the state of a running root."""
    return Statement(kind=LineKind.CHECKPOINT, time=at, **msgspec.structs.asdict(state))


def retention_of(marker: FactsRemoved) -> Statement:
    """Return the statement about facts that will be removed."""
    return Statement(
        kind=LineKind.RETENTION,
        instance=marker.instance,
        day=marker.partition,
        number=marker.number,
        root=marker.root,
        time=marker.made_at,
        ended_before=marker.ended_before,
    )


def erasure_statement(marker: TextsErased, instance: InstanceId) -> Statement:
    """Return the statement about texts that will be erased.

    Args:
        marker: of the erasure.
        instance: the erasing instance.
    """
    return Statement(
        kind=LineKind.ERASURE,
        instance=instance,
        day=marker.partition,
        number=marker.facts,
        root=marker.root,
        time=marker.made_at,
        marker=marker.marker_id,
    )


def audit_statement(head: AuditHead, instance: InstanceId, at: datetime) -> Statement:
    """Return the statement about the head of the audit of rollouts, as `instance` read it."""
    day = at.astimezone(UTC).date()
    return Statement(kind=LineKind.AUDIT, instance=instance, day=day, number=head.number, root=head.link, time=at)


def restored_statement(state: RootState, by: str, at: datetime) -> Statement:
    """Return the statement that a root has this earlier state again, because an older backup was restored.

    `by`: who states it, and why.
    """
    return Statement(kind=LineKind.RESTORED, time=at, marker=by, **msgspec.structs.asdict(state))


def restored_audit_statement(head: AuditHead, instance: InstanceId, by: str, at: datetime) -> Statement:
    """Return the statement that the audit has this earlier head again, as `instance` read it; `by`: who, and why."""
    return msgspec.structs.replace(audit_statement(head, instance, at), kind=LineKind.RESTORED_AUDIT, marker=by)


def furthest_audit(lines: Iterable[CheckpointLine]) -> AuditHead:
    """Return the newest head of the audit of rollouts in the lines of a file, in their order."""
    furthest_head = AuditHead()
    for line in lines:
        grown = line.kind is LineKind.AUDIT and line.number > furthest_head.number
        # After a restored backup the count goes back; the rows that follow get numbers that were used before.
        if grown or line.kind is LineKind.RESTORED_AUDIT:
            furthest_head = AuditHead(line.number, line.root)
    return furthest_head


def furthest(lines: Iterable[CheckpointLine]) -> dict[RootKey, RootState]:
    """Return the newest state of each running root in the lines of a file, in their order."""
    states: dict[RootKey, RootState] = {}
    for line in lines:
        known = states.get(line.key)
        # Equal numbers count too: a retention repeats the number of the last checkpoint.
        grown = line.kind in OF_ROOTS and (known is None or line.number >= known.number)
        if grown or line.kind is LineKind.RESTORED:
            # After a restored backup the newest state is the smaller one that the line states.
            states[line.key] = line.state
    return states


class CheckpointClaims(msgspec.Struct):
    """The statements of the second place, collected from its lines.

    The files of the place are read one after the other, so an added line may be older than a line of an earlier file.

    Attributes:
        roots: the stated hash for each number of facts, by running root. The first line about a number counts.
        removed: states of roots whose facts were about to be removed.
        erased: number, day and root of facts that were about to be erased, by marker.
        audit: time and link of each signature of the audit of rollouts, by number of the row.
        restored: the newest statement about each root that a restored backup has shortened.
        restored_audit: the statements about the audit, and up to which row it was signed before.
    """

    roots: dict[RootKey, dict[int, str]] = msgspec.field(default_factory=dict)
    removed: dict[RootKey, RootState] = msgspec.field(default_factory=dict)
    erased: dict[str, tuple[date, int, str]] = msgspec.field(default_factory=dict)
    audit: dict[int, tuple[datetime, str]] = msgspec.field(default_factory=dict)
    restored: dict[RootKey, CheckpointLine] = msgspec.field(default_factory=dict)
    restored_audit: list[tuple[CheckpointLine, int]] = msgspec.field(default_factory=list)

    def add(self, line: CheckpointLine) -> bool:
        """Add a line with a valid signature; return whether it agrees with earlier ones."""
        if line.kind is LineKind.AUDIT:
            # A claim about a row that was lost when a backup was restored agrees always: its number belongs to another
            # row now, so there is nothing to compare it with.
            lost = any(line.number > each.number and line.time <= each.time for each, _ in self.restored_audit)
            return lost or self.audit.setdefault(line.number, (line.time, line.root))[1] == line.root
        if line.kind is LineKind.RESTORED_AUDIT:
            return self._restore_audit(line)
        if line.kind is LineKind.RESTORED:
            # Without facts there is no root to compare: the whole root was lost with the record. Compared before the
            # line is kept: `of` prefers the restored state, so the line would agree with itself.
            agrees = not line.number or self.of(line.key).get(line.number, line.root) == line.root
            if agrees:
                self.restored[line.key] = line
            return agrees
        if line.kind is LineKind.ERASURE:
            said = line.day, line.number, line.root
            # The id of a marker is used once, so another statement under the same id is a forgery or a defect.
            return self.erased.setdefault(line.marker or "", said) == said
        # Checkpoints and retentions: both state a root, so a retention must agree with the checkpoints.
        first = self.roots.setdefault(line.key, {}).setdefault(line.number, line.root)
        if line.kind is LineKind.RETENTION:
            # Even if the roots differ: the marker in the record is compared with what this line states.
            self.removed[line.key] = line.state
        # False means that one number of facts had two roots: the record was rewritten between two checkpoints.
        return first == line.root

    def of(self, key: RootKey) -> Mapping[int, str]:
        """Return the claims about a running root by number; of a restored root, only up to its restored state.

        The instance of a restored root has ended with the lost record and appends no more.
        """
        claims, restored = self.roots.get(key, NO_CLAIMS), self.restored.get(key)
        if restored is None:
            return claims
        # Claims about lost facts cannot be met; those about the facts that are left still count.
        kept = {number: root for number, root in claims.items() if number <= restored.number}
        # The restored state is signed, too, and counts even if no checkpoint fell on exactly this number.
        return kept | ({restored.number: restored.root} if restored.number else {})

    @property
    def audit_links(self) -> Mapping[int, str]:
        """The signed links of the audit of rollouts, by number of the row."""
        return {number: link for number, (_, link) in self.audit.items()}

    def _restore_audit(self, line: CheckpointLine) -> bool:
        """Remove claims, signed before the restoration, about rows that it lost.

        Returns:
            Whether the line agrees with the earlier claim about the newest row that is left, if there is one.
        """
        # Only earlier claims: a row that was signed after the restoration reuses a number, and still counts.
        lost = {number for number, (at, _) in self.audit.items() if number > line.number and at <= line.time}
        # Before the claims are dropped: the notice must say how many rows were lost.
        self.restored_audit.append((line, max(lost, default=line.number)))
        self.audit = {number: claim for number, claim in self.audit.items() if number not in lost}
        return not line.number or self.audit.setdefault(line.number, (line.time, line.root))[1] == line.root
