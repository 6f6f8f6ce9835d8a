"""Parses the value of a setting according to its annotation, for `Section`.

A problem contains the setting's path and never its value, which may be secret.
"""

import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum, unique
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

NOT_READ: Final = object()
"""Takes the place of a value that could not be read. None cannot, because it is a valid value."""
INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
DIGITS_AT_MOST: Final = 100
"""Maximum length of a number's text. The time of `int()` grows with the square of the number of digits."""
YES: Final = frozenset({"true", "1", "yes", "on"})
NO: Final = frozenset({"false", "0", "no", "off"})
"""`YES` and `NO`: the texts that a variable may have for true and false."""


@unique
class ProblemKind(Enum):
    """The kind of a problem, by which `reading.py` adds a hint to the message."""

    MISSING = "missing"
    """A required setting has no value."""
    UNKNOWN = "unknown"
    """There is no setting of this name."""
    VALUE = "value"
    """The value is of a wrong kind or violates a constraint."""


class Problem(NamedTuple):
    """One problem of the settings.

    Attributes:
        path: the path of the setting, e.g. `("dispatch", "fan_out_cap")`.
        text: the problem, e.g. "must be a number". It never contains the value, which may be secret.
    """

    path: tuple[str, ...]
    kind: ProblemKind
    text: str


class InvalidValues(ValueError):
    """A section has invalid values; `problems` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{'.'.join(one.path)}: {one.text}" if one.path else one.text for one in problems))
        self.problems = tuple(problems)


class Secret:
    """A secret text. Its `repr` hides it, so that logs and error messages cannot contain it by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        """Whether both are the same secret."""
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash(self._text)

    def __repr__(self) -> str:
        """Hide the text."""
        return "Secret(hidden)"


def read_value(kind: Any, configured: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
    """Return the value of a setting; or `NOT_READ`, after adding its problems to `problems`.

    Args:
        kind: the annotation of the setting. A function in an `Annotated` converts the configured value, and raises
            `ValueError` if it cannot.
        configured: the value from TOML, or the text of a variable.
        path: the path of the setting.
        problems: receives the problems.
    """
    origin = get_origin(kind)
    if origin is Union or origin is UnionType:
        # One kind of the union is chosen before the value is read. The message then names one kind: "must be a number".
        kind = _kind_for(get_args(kind), configured)
        origin = get_origin(kind)
    if kind is Any or (kind is NoneType and configured is None):
        return configured
    # Not `issubclass(kind, Section)`: the module of `Section` imports this one.
    if hasattr(kind, "SETTINGS"):
        return kind.read(configured, path, problems)
    if origin in (dict, list, tuple):
        return _read_all(kind, configured, path, problems)
    try:
        return _read_one(kind, configured)
    except ValueError as wrong:
        problems.append(Problem(path, ProblemKind.VALUE, str(wrong)))
        return NOT_READ


def _kind_for(kinds: tuple[Any, ...], configured: Any) -> Any:
    """Return the kind of a union by which a value is to be read: None, a table, or the first other kind."""
    if configured is None and NoneType in kinds:
        return NoneType
    tables = [kind for kind in kinds if get_origin(kind) is dict]
    if tables and isinstance(configured, Mapping):
        return tables[0]
    # A union has at most one other kind, so its message is the right one.
    return next(kind for kind in kinds if kind is not NoneType and kind not in tables)


def _read_all(kind: Any, configured: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
    """Read a table, list or tuple whose values are all of one kind. Return it, or `NOT_READ`."""
    origin, before = get_origin(kind), len(problems)
    if origin is dict:
        if not isinstance(configured, Mapping):
            problems.append(Problem(path, ProblemKind.VALUE, "must be a table"))
            return NOT_READ
        inner = get_args(kind)[1]
        # All entries are read even after a problem, because all problems are reported together.
        table = {str(name): read_value(inner, each, (*path, str(name)), problems) for name, each in configured.items()}
        return table if len(problems) == before else NOT_READ
    if not isinstance(configured, list | tuple):
        problems.append(Problem(path, ProblemKind.VALUE, "must be a list"))
        return NOT_READ
    inner = get_args(kind)[0]
    values = [read_value(inner, each, (*path, str(number)), problems) for number, each in enumerate(configured)]
    return origin(values) if len(problems) == before else NOT_READ


def _read_one(kind: Any, configured: Any) -> Any:
    """Return a value that is neither a table nor a list. Raises `ValueError`."""
    origin = get_origin(kind)
    if origin is Annotated:
        # The first entry is the function; further ones are not used.
        return kind.__metadata__[0](configured)
    if origin is Literal:
        return _one_of(get_args(kind), configured)
    if issubclass(kind, Enum):
        # A default or a test may pass the member itself instead of its text.
        return kind(
            _one_of(
                tuple(each.value for each in kind), configured.value if isinstance(configured, kind) else configured
            )
        )
    return _PLAIN[kind](configured)


def _one_of(choices: tuple[Any, ...], configured: Any) -> Any:
    if isinstance(configured, str) and configured in choices:
        return configured
    *most, last = map(repr, choices)
    raise ValueError(f"must be {', '.join(most)} or {last}" if most else f"must be {last}")


def _text(configured: Any) -> str:
    if isinstance(configured, str):
        return configured
    raise ValueError("must be a text")


def _truth(configured: Any) -> bool:
    # `bool` is a subclass of `int`, so it is checked first: `true` is not the number 1.
    if isinstance(configured, bool):
        return configured
    # Variables are always texts.
    if isinstance(configured, str | int) and str(configured).strip().lower() in YES | NO:
        return str(configured).strip().lower() in YES
    raise ValueError("must be true or false")


def _integer(configured: Any) -> int:
    if isinstance(configured, int) and not isinstance(configured, bool):
        return configured
    # `3.0` is a whole number, as in JSON Schema, which checks the settings of plugins.
    if isinstance(configured, float) and configured.is_integer():
        return int(configured)
    if isinstance(configured, str) and len(configured) <= DIGITS_AT_MOST and INTEGER.fullmatch(configured.strip()):
        return int(configured)
    raise ValueError("must be a whole number")


def _number(configured: Any) -> float:
    if isinstance(configured, int | float | str) and not isinstance(configured, bool):
        try:
            value = float(configured)
        except (ValueError, OverflowError):
            value = math.nan
        # TOML has `nan` and `inf`. Comparisons with `nan` are always false, and `inf` exceeds every minimum.
        if math.isfinite(value):
            return value
    raise ValueError("must be a number")


def _path(configured: Any) -> Path:
    # A path with a null byte would raise only when the file is opened, with a message that names no setting.
    if isinstance(configured, str | Path) and "\0" not in str(configured):
        return Path(configured)
    raise ValueError("must be a path")


def _secret(configured: Any) -> Secret:
    # Wrapped before other code gets the text: an error message or log line then shows only `Secret(hidden)`.
    return configured if isinstance(configured, Secret) else Secret(_text(configured))


_PLAIN: Final = {
    str: _text, bool: _truth, int: _integer, float: _number, Path: _path, Secret: _secret,
}  # fmt: skip
