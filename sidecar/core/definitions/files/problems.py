"""Problems of a configuration, described so that the author can correct them.

A configuration with an error is not served: the sidecar keeps the previous one. `sidecar validate` prints all
problems.
"""

from collections.abc import Iterable
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct

QUOTED_AT_MOST: Final = 80
"""The most characters of the author's text in a message."""
COMPARED_AT_MOST: Final = 200
"""The most names that a wrong key is compared with. More comparisons would take too long for a hint."""


@unique
class Severity(StrEnum):
    """Whether a problem prevents loading."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


class Problem(Struct, frozen=True):
    """One problem at one place.

    Attributes:
        file: relative to the configuration root; empty: the configuration as a whole.
        line: counted from 1; None: the whole file.
        field: path inside the file, entries by id, e.g. `agents.shop.prompt_blocks[1]`; empty: the whole file.
        text: the problem and, if it is not obvious, the remedy.
        severity: an error prevents the whole configuration from loading.
        key: the wrong name, if the problem is a wrong name.
        suggestion: the known name most similar to `key`; None: no name is similar.
    """

    file: str
    line: int | None
    field: str
    text: str
    severity: Severity = Severity.ERROR
    key: str | None = None
    suggestion: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether the problem prevents the configuration from loading."""
        return self.severity is Severity.ERROR

    def render(self) -> str:
        """Return `file:line: field: text; did you mean "x"?`, one line, safe to print."""
        place = printable(self.file) if self.line is None else f"{printable(self.file)}:{self.line}"
        parts = [place] if place else []
        if not self.is_error:
            parts.append(self.severity.value)
        if self.field:
            parts.append(printable(self.field))
        hint = "" if self.suggestion is None else f'; did you mean "{printable(self.suggestion)}"?'
        return ": ".join([*parts, self.text + hint])


def printable(text: str) -> str:
    """Return `text` with everything escaped that could move a cursor or start a new line."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def quoted(text: str) -> str:
    """Return the author's own text for a message: in quotes, printable, cut to `QUOTED_AT_MOST` characters."""
    shown = text if len(text) <= QUOTED_AT_MOST else text[:QUOTED_AT_MOST] + "…"
    return f'"{printable(shown)}"'


def nearest(key: str, choices: Iterable[str]) -> str | None:
    """Return the choice most like `key`, or None if none is alike."""
    from difflib import get_close_matches  # noqa: PLC0415  only a wrong name needs it

    # A list that was written wrong may have thousands of unknown names, and each is compared with every choice: the
    # number of choices must be small.
    some = [choice for choice, _ in zip(choices, range(COMPARED_AT_MOST), strict=False)]
    matches = get_close_matches(key[:QUOTED_AT_MOST], some, n=1, cutoff=0.6)
    return matches[0] if matches else None


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems by file, line and field, without duplicates."""
    # A problem of a whole file comes before those of its lines.
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (one.file, one.line or 0, one.field, one.text)))
