"""What stands in a file of tombstones: one JSON object a line, the newest last.

    {"stop": {"kind": "kill", "digest": "...", ...}}
    {"recorded": ["kill", "..."]}

A line that was half-written when the power went is the last one; it never was answered for, and is cut off.
"""

from collections.abc import Sequence

import msgspec

from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.ports import LocalStop, StopKind


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a stop, or that one is on record."""

    stop: LocalStop | None = None
    recorded: tuple[StopKind, Digest] | None = None


class Read(msgspec.Struct, frozen=True):
    """What was found in a file.

    Attributes:
        length: of its whole lines, in bytes; what follows was half-written.
        damaged: numbers of lines, from 1, that nobody can read.
    """

    stops: Sequence[LocalStop]
    recorded: Sequence[tuple[StopKind, Digest]]
    length: int
    damaged: Sequence[int]


def line_of(line: Line) -> bytes:
    """Return a line with its end."""
    return msgspec.json.encode(line) + b"\n"


def read_lines(content: bytes) -> Read:
    """Return what a file says."""
    length = content.rfind(b"\n") + 1
    stops: list[LocalStop] = []
    recorded: list[tuple[StopKind, Digest]] = []
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
            recorded = [key for key in recorded if key != (line.stop.kind, line.stop.digest)]
        elif line.recorded is not None:
            recorded.append(line.recorded)
        else:
            damaged.append(number)
    return Read(stops, recorded, length, damaged)
