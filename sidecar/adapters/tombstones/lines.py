"""What stands in a file of tombstones: one JSON object a line, the newest last.

    {"stop": {"kind": "kill", "digest": "...", ...}}
    {"recorded": ["kill", "..."]}
    {"recorded": ["ramp_down", "..."], "of": "which request"}

A line that was half-written when the power went is the last one; it never was answered for, and is cut off. Any other
line that cannot be read is kept as it is: it may have been a kill, so what it names is not served.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import LocalStop, StopKey, StopKind

DIGEST: Final = re.compile(rb"sha256:[0-9a-f]{64}(?![0-9a-f])")


class TombstoneEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a stop, or the note that a stop is recorded."""

    stop: LocalStop | None = None
    recorded: tuple[StopKind, Digest] | None = None
    of: str = ""


class TombstoneFileContents(msgspec.Struct, frozen=True):
    """The contents of a file.

    Attributes:
        length: of its lines with their ends, in bytes; what follows was half-written.
        damaged: lines that cannot be read, by their numbers, from 1. They are never thrown away.
        held: definitions named in them that may have been killed.
    """

    stops: Sequence[LocalStop]
    recorded: Sequence[StopKey]
    length: int
    damaged: Mapping[int, bytes]
    held: frozenset[Digest]


def line_of(line: TombstoneEntry) -> bytes:
    """Return a line with its end."""
    return msgspec.json.encode(line) + b"\n"


def recorded_line(key: StopKey) -> bytes:
    """Return the line for a recorded stop."""
    return line_of(TombstoneEntry(recorded=(key.kind, key.digest), of=key.of))


def read_lines(content: bytes) -> TombstoneFileContents:
    """Return the contents of a file."""
    whole, unfinished = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
    stops: list[LocalStop] = []
    recorded: list[StopKey] = []
    damaged: dict[int, bytes] = {}
    rows = whole.split(b"\n")[:-1]
    if _line_from(unfinished) or _line_from(unfinished[:-1]):
        rows.append(unfinished)  # only its end is missing or damaged, so it may have been answered for
    for number, raw in enumerate(rows, 1):
        line = _line_from(raw)
        if line is None:
            damaged[number] = raw
        elif line.stop is not None:
            stops.append(line.stop)
            # a ramp-down that was put on record may be asked for again, and is then pending again
            recorded = [key for key in recorded if key != line.stop.key]
        elif line.recorded is not None:
            recorded.append(StopKey(*line.recorded, line.of))
    length = sum(len(raw) + 1 for raw in rows)
    return TombstoneFileContents(stops, recorded, length, damaged, frozenset(_held(damaged.values())))


def _line_from(raw: bytes) -> TombstoneEntry | None:
    """Return a line; None if it is unreadable or empty."""
    try:
        line = from_json(raw, TombstoneEntry)
    except DecodeError:
        return None
    return line if line.stop is not None or line.recorded is not None else None


def _held(damaged: Iterable[bytes]) -> Iterator[Digest]:
    """Yield the definitions that damaged lines name; for a ramp-down it is unknown whether it has ended."""
    for raw in damaged:
        if StopKind.RAMP_DOWN.encode() not in raw:
            yield from (Digest(found.decode("ascii", "replace")) for found in DIGEST.findall(raw))
