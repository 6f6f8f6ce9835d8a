"""Lines of the second place: signed statements about running roots, each linked to the line before it.

A line is one JSON object. Its signature covers every other field, so that no line can be altered; its sequence and the
hash of the line before show a line that was taken out. What a line cannot show is that it was the last one.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum, unique
from hashlib import sha256
from typing import Final, Protocol

import msgspec

from sidecar.core.decoding import Undecodable, from_json
from sidecar.core.executing.stored_record import ClosedState, RetentionMarker
from sidecar.core.identifiers import InstanceId

NO_LINE: Final = "0" * 64
"""What the first line has in the place of the hash of a line before it."""


@unique
class LineKind(StrEnum):
    """What a line states."""

    CHECKPOINT = "checkpoint"
    """The running root of `instance` was `root` after `number` closed children."""
    RETENTION = "retention"
    """What was closed up to `number` was about to be removed, because it was closed before `closed_before`."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be signed and kept in the second place.

    Attributes:
        closed_before: of a retention only.
    """

    kind: LineKind
    instance: InstanceId
    number: int
    root: str
    time: datetime
    closed_before: datetime | None = None


class CheckpointLine(msgspec.Struct, frozen=True, kw_only=True):
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
    number: int
    root: str
    time: datetime
    closed_before: datetime | None
    key_id: str
    signature: str

    def signed_bytes(self) -> bytes:
        """Return what the signature covers: every other field, in order, as JSON, after a prefix of its own."""
        return b"line\x1f" + msgspec.json.encode(msgspec.structs.astuple(self)[:-1])


class Signer(Protocol):
    """Signs; a key's id stays the same for the life of the key."""

    @property
    def key_id(self) -> str:
        """Return the id of the key."""

    def sign(self, payload: bytes) -> str:
        """Return the signature in hex."""


@unique
class Judgement(StrEnum):
    """What is to be thought of a signature."""

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    UNKNOWN_KEY = "unknown_key"


class SignatureJudge(Protocol):
    """Knows some public keys."""

    def judge(self, key_id: str, payload: bytes, signature: str) -> Judgement:
        """Say whether `signature` (hex) is the key's over `payload`. Never raises."""


def signed_line(statement: Statement, sequence: int, previous: str, signer: Signer) -> CheckpointLine:
    """Return the line for a statement, signed."""
    fields = msgspec.structs.asdict(statement)
    unsigned = CheckpointLine(sequence=sequence, previous=previous, key_id=signer.key_id, signature="", **fields)
    return msgspec.structs.replace(unsigned, signature=signer.sign(unsigned.signed_bytes()))


def line_text(line: CheckpointLine) -> bytes:
    """Return the line as it is written, without its end."""
    return msgspec.json.encode(line)


def line_hash(text: bytes) -> str:
    """Return the hash by which the next line names this one; 64 hex digits."""
    return sha256(text).hexdigest()


def line_from(text: bytes) -> CheckpointLine | None:
    """Read a line; None if it is none of ours."""
    try:
        return from_json(text, CheckpointLine)
    except Undecodable:
        return None


def checkpoint_of(state: ClosedState, at: datetime) -> Statement:
    """Return the statement about where a running root stands."""
    return Statement(kind=LineKind.CHECKPOINT, instance=state.instance, number=state.number, root=state.root, time=at)


def retention_of(marker: RetentionMarker) -> Statement:
    """Return the statement about what is to be removed."""
    return Statement(
        kind=LineKind.RETENTION,
        instance=marker.instance,
        number=marker.number,
        root=marker.root,
        time=marker.made_at,
        closed_before=marker.closed_before,
    )


def marker_bytes(marker: RetentionMarker) -> bytes:
    """Return what a marker's signature covers: every other field, in order, as JSON, after a prefix of its own."""
    times = {"closed_before": marker.closed_before.astimezone(UTC), "made_at": marker.made_at.astimezone(UTC)}
    in_utc = msgspec.structs.replace(marker, **times)  # a database may give them in the zone of its session
    return b"marker\x1f" + msgspec.json.encode(msgspec.structs.astuple(in_utc)[:-1])


def signed_marker(state: ClosedState, closed_before: datetime, made_at: datetime, signer: Signer) -> RetentionMarker:
    """Return the marker under which everything up to `state` may be removed, signed."""
    unsigned = RetentionMarker(
        instance=state.instance,
        number=state.number,
        root=state.root,
        closed_before=closed_before,
        made_at=made_at,
        key_id=signer.key_id,
        signature="",
    )
    return msgspec.structs.replace(unsigned, signature=signer.sign(marker_bytes(unsigned)))


class Claims(msgspec.Struct):
    """What the second place says, gathered from its lines.

    Attributes:
        roots: by instance and number.
        retained: running roots up to which something was to be removed, by instance and number.
    """

    roots: dict[InstanceId, dict[int, str]] = msgspec.field(default_factory=dict)
    retained: dict[tuple[InstanceId, int], str] = msgspec.field(default_factory=dict)

    def add(self, line: CheckpointLine) -> None:
        """Take in a line whose signature fits."""
        self.roots.setdefault(line.instance, {})[line.number] = line.root
        if line.kind is LineKind.RETENTION:
            self.retained[line.instance, line.number] = line.root

    def of(self, instance: InstanceId) -> Mapping[int, str]:
        """Return the roots of an instance, by number."""
        return self.roots.get(instance, {})
