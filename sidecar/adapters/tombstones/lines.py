"""What stands in a file of tombstones: one JSON object a line, the newest last.

    {"stop": {"kind": "kill", "digest": "...", ...}}
    {"recorded": ["kill", "..."]}
    {"recorded": ["ramp_down", "..."], "of": "which request"}

A line that was half-written when the power went is the last one; it never was answered for, and is cut off.
"""

from collections.abc import Sequence

import msgspec

from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.ports import LocalStop, StopKey, StopKind


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a stop, or that one is on record."""

    stop: LocalStop | None = None
    recorded: tuple[StopKind, Digest] | None = None
    of: str = ""


class Read(msgspec.Struct, frozen=True):
    """What was found in a file.

    Attributes:
        length: of its whole lines, in bytes; what follows was half-written.
        damaged: numbers of lines, from 1, that nobody can read.
    """

    stops: Sequence[LocalStop]
    recorded: Sequence[StopKey]
    length: int
    damaged: Sequence[int]


def line_of(line: Line) -> bytes:
    """Return a line with its end."""
    return msgspec.json.encode(line) + b"\n"


def recorded_line(key: StopKey) -> bytes:
    """Return the line which says that a stop is on record."""
    kind, digest, of = key
    return line_of(Line(recorded=(kind, digest), of=of))


def read_lines(content: bytes) -> Read:
    """Return what a file says."""
    length = content.rfind(b"\n") + 1
    stops: list[LocalStop] = []
    recorded: list[StopKey] = []
    damaged: list[int] = []
    for number, raw in enumerate(content[:length].splitlines(), 1):
        try:
            line = msgspec.json.decode(raw, type=Line)
        except msgspec.MsgspecError:
            damaged.append(number)
            continue
        if line.stop is not None:
            stops.append(line.stop)
            # a ramp-down that was put on record may be asked for again, and is then pending again
            recorded = [key for key in recorded if key != line.stop.key]
        elif line.recorded is not None:
            recorded.append((*line.recorded, line.of))
        else:
            damaged.append(number)
    return Read(stops, recorded, length, damaged)
