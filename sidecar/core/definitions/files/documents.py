"""A parsed file with the line of each value.

The checks name the line of each problem, also those that run long after the parser.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from sidecar.core.definitions.files.problems import Problem, Severity, nearest

Steps: TypeAlias = tuple[str | int, ...]
"""The path to a value: keys and list indexes from the top."""

T = TypeVar("T")


class Document(Struct, frozen=True):
    """A parsed file. The parser has refused aliases, tags, duplicate and non-text keys and too much depth.

    Attributes:
        path: relative to the configuration root, `/` between the parts.
        value: built of dict (text keys), list, str, int, float, bool and None.
        lines: line of each value, counted from 1.
        written: the source text of numbers, truth values and nulls.
    """

    path: str
    value: Any
    lines: Mapping[Steps, int]
    written: Mapping[Steps, str]

    def line_of(self, steps: Steps) -> int | None:
        """Return the line of the value, or of its nearest existing parent; None for an empty file."""
        # A missing field has no line of its own: its problem is shown at the mapping that should contain it.
        while steps not in self.lines and steps:
            steps = steps[:-1]
        return self.lines.get(steps)

    def value_at(self, steps: Steps) -> Any:
        """Return the value, or None if there is none."""
        value = self.value
        for step in steps:
            try:
                value = value[step]
            # TypeError: a step into a text or a number, because the author wrote another type than expected.
            except (KeyError, IndexError, TypeError):
                return None
        return value


class SourceLocation(Struct, frozen=True):
    """A place in a document, and its name in messages.

    Attributes:
        label: `steps` as text, with ids for the entries of a registry: `agents.shop.tools[0]`.
    """

    document: Document
    steps: Steps = ()
    label: str = ""

    def at(self, *steps: str | int) -> "SourceLocation":
        """Return a place below this one."""
        label = self.label
        for step in steps:
            label += f"[{step}]" if isinstance(step, int) else f".{step}" if label else step
        # The place need not exist: a missing field has a place as well, for its problem.
        return SourceLocation(self.document, self.steps + steps, label)

    def called(self, label: str) -> "SourceLocation":
        """Return the same place under another label."""
        return SourceLocation(self.document, self.steps, label)

    @property
    def value(self) -> Any:
        """The value at this place; None if there is none."""
        return self.document.value_at(self.steps)

    def error(self, text: str, *, key: str | None = None, choices: Iterable[str] = ()) -> Problem:
        """Return an error at this place; with `key` and `choices`, also the choice nearest to the key."""
        return self._problem(text, Severity.ERROR, key, choices)

    def warning(self, text: str, *, key: str | None = None) -> Problem:
        """Return a warning at this place."""
        return self._problem(text, Severity.WARNING, key, ())

    def advice(self, text: str, *, key: str | None = None) -> Problem:
        """Return advice on the value at this place."""
        return self._problem(text, Severity.ADVICE, key, ())

    def _problem(self, text: str, severity: Severity, key: str | None, choices: Iterable[str]) -> Problem:
        return Problem(
            file=self.document.path,
            line=self.document.line_of(self.steps),
            field=self.label,
            text=text,
            severity=severity,
            key=key,
            # Computed here, because only the check knows the choices.
            suggestion=None if key is None else nearest(key, choices),
        )


class Entry(Struct, Generic[T], frozen=True):
    """One entry of a registry and its place."""

    value: T
    place: SourceLocation
