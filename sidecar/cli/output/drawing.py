"""Prints lines with styles to a terminal, and as plain text to everything else. All commands with tables use it."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp
    from rich.console import Console

    from subagents.history.v1.history_pb2 import GetTurnResponse

PLAIN_WIDTH: Final = 100
"""Characters of a line with bars if the output is no terminal."""
NARROWEST: Final = 60
WIDEST: Final = 160
"""The limits of a line with bars on a terminal."""
MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a line. `style` is a style of rich; it never adds information to the text."""

    text: str
    style: str = ""


TextLine = Sequence[Part]
"""A line, as the parts that it consists of."""


@dataclass(frozen=True, slots=True)
class GlyphSet:
    """The characters of a timeline.

    Attributes:
        idle: before and after a child ran.
        running: while it ran.
        waiting: while its result waited for the parent.
        branch: before the name of a delegated child.
    """

    idle: str
    running: str
    waiting: str
    branch: str


FANCY: Final = GlyphSet(idle="·", running="█", waiting="░", branch="└ ")
ASCII: Final = GlyphSet(idle=".", running="#", waiting="-", branch="> ")


class Screen:
    """The output for lines.

    Args:
        out: a terminal or anything else.
        environment: with `NO_COLOR`, a terminal gets plain text, too; None: the environment of the process.
    """

    def __init__(self, out: TextIO, environment: Mapping[str, str] | None = None) -> None:
        self._out = out
        if environment is None:
            # `get_terminal_size` reads `COLUMNS`, too. 0 means that there is neither a terminal nor this variable.
            self._columns = shutil.get_terminal_size((0, 0)).columns
        else:
            self._columns = int(environment.get("COLUMNS", "0"))
        # Rich is imported only for a terminal: in pipelines, its import would be a large part of a command's time.
        self._console = _console(out, environment) if out.isatty() else None

    @property
    def marks(self) -> GlyphSet:
        """The characters of bars."""
        return ASCII if self._console is None else FANCY

    @property
    def width(self) -> int:
        """The width of a line for bars, in characters."""
        return PLAIN_WIDTH if self._console is None else min(max(self._console.width, NARROWEST), WIDEST)

    @property
    def room(self) -> int | None:
        """The width of a table in characters: that of the terminal, otherwise `COLUMNS`; None: no limit."""
        if self._console is not None:
            return self._console.width
        return self._columns or None

    def show(self, lines: Iterable[TextLine]) -> None:
        """Print lines, and flush the output."""
        if self._console is None:
            # Without the padding of the last column.
            self._out.writelines("".join(part.text for part in line).rstrip() + "\n" for line in lines)
        else:
            from rich.text import Text  # noqa: PLC0415  only for a terminal

            for line in lines:
                self._console.print(Text.assemble(*((part.text, part.style) for part in line)))
        self._out.flush()

    def write(self, text: str) -> None:
        """Print one text unchanged, for programs."""
        self._out.write(text + "\n")
        self._out.flush()


def _console(out: TextIO, environment: Mapping[str, str] | None) -> "Console | None":
    """Return rich's console for a terminal; None: the terminal gets plain text, e.g. because of `NO_COLOR`."""
    from rich.console import Console  # noqa: PLC0415  only for a terminal

    # No highlighting and no wrapping: text and line ends must be the same as in plain output.
    console = Console(file=out, highlight=False, soft_wrap=True, _environ=environment)
    return None if console.no_color else console


def clean(text: str) -> str:
    """Return text with escaped control characters, which could control the terminal or forge a line."""
    # Nearly every text is printable, so it is rarely rebuilt character by character.
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def utc(stamp: "Timestamp") -> datetime:
    """Return a protobuf timestamp as a `datetime`."""
    return stamp.ToDatetime(tzinfo=UTC)


def begin_of(turn: "GetTurnResponse") -> datetime:
    """Return the time from which the seconds of a turn count.

    Not always its own begin: a child may have been opened by a sidecar whose clock is behind.
    """
    return min([utc(turn.turn.started_at), *(utc(child.opened_at) for child in turn.children)])


def timestamp(at: datetime) -> str:
    """Return a time to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}"


def length(duration: timedelta) -> str:
    """Return a duration in a readable form, e.g. `250 ms`, `1.5 s`, `3 min 20 s`."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:.0f} s"


def columns(header: Sequence[str], rows: Sequence[Sequence[Part]]) -> list[TextLine]:
    """Return a table, every column as wide as its widest cell. A row has a cell for each name in `header`."""
    widths = [max(len(name), *(len(row[index].text) for row in rows)) for index, name in enumerate(header)]
    heads = [Part(name.ljust(width) + "  ", "bold") for name, width in zip(header, widths, strict=True)]
    body = [
        [Part(cell.text.ljust(width) + "  ", cell.style) for cell, width in zip(row, widths, strict=True)]
        for row in rows
    ]
    return [heads, *body]
