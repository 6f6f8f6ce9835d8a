"""The format of a tombstone file: one JSON object per line, the newest last.

    {"stop": {"kind": "kill", "digest": "...", ...}}
    {"recorded": ["kill", "..."]}
    {"recorded": ["ramp_down", "..."], "of": "the id of the request"}

An incomplete last line was being written during a power cut. Its stop was never acknowledged, so it is removed. Any
other unreadable line is kept. It may have been a kill, so the definitions whose digests it contains are not served.
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
    """One line: a stop, or the note that the rollout store has a stop.

    Attributes:
        stop: the stop; None in a note.
        recorded: kind and digest of the recorded stop; None in a stop.
        of: in a note about a ramp-down, the id of its request.
    """

    stop: LocalStop | None = None
    recorded: tuple[StopKind, Digest] | None = None
    of: str = ""


class TombstoneFileContents(msgspec.Struct, frozen=True):
    """The contents of a file.

    Attributes:
        stops: all stops, in the order of the lines.
        recorded: the stops that the rollout store has.
        length: size of the complete lines in bytes. The rest was being written during a crash.
        damaged: the unreadable lines by number, from 1. They are never removed.
        held: digests of definitions in unreadable lines, which may have been killed.
    """

    stops: Sequence[LocalStop]
    recorded: Sequence[StopKey]
    length: int
    damaged: Mapping[int, bytes]
    held: frozenset[Digest]


def line_of(line: TombstoneEntry) -> bytes:
    """Return the bytes of a line, with its line end."""
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
    # The second try is without the last byte, which may be a damaged line end.
    if _line_from(unfinished) or _line_from(unfinished[:-1]):
        rows.append(unfinished)  # only its line end is missing or damaged, so it may have been acknowledged
    for number, raw in enumerate(rows, 1):
        line = _line_from(raw)
        if line is None:
            damaged[number] = raw
        elif line.stop is not None:
            stops.append(line.stop)
            # A recorded ramp-down may be requested again, and is then pending again.
            recorded = [key for key in recorded if key != line.stop.key]
        elif line.recorded is not None:
            recorded.append(StopKey(*line.recorded, line.of))
    length = sum(len(raw) + 1 for raw in rows)
    return TombstoneFileContents(stops, recorded, length, damaged, frozenset(_held(damaged.values())))


def _line_from(raw: bytes) -> TombstoneEntry | None:
    """Return the entry in a line; None if it is unreadable or empty."""
    try:
        line = from_json(raw, TombstoneEntry)
    except DecodeError:
        return None
    return line if line.stop is not None or line.recorded is not None else None


def _held(damaged: Iterable[bytes]) -> Iterator[Digest]:
    """Yield the digests in damaged lines that may have been kills."""
    # A damaged ramp-down is ignored, because it is unknown whether it still counts.
    for raw in damaged:
        if StopKind.RAMP_DOWN.encode() not in raw:
            yield from (Digest(digest.decode("ascii", "replace")) for digest in DIGEST.findall(raw))
