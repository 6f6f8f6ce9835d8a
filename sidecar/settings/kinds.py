"""Reads a value of a setting by the setting's annotation; every problem is told by its place, none shows the value."""

import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum, unique
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

NOT_READ: Final = object()
"""In the place of a value with which something is wrong."""
INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
DIGITS_AT_MOST: Final = 100
YES: Final = frozenset({"true", "1", "yes", "on"})
NO: Final = frozenset({"false", "0", "no", "off"})


@unique
class ProblemKind(Enum):
    """What is wrong about a place in the settings."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    VALUE = "value"


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        path: of the setting, from the section that is read.
        text: what is wrong, without the value.
    """

    path: tuple[str, ...]
    kind: ProblemKind
    text: str


class InvalidValues(ValueError):
    """Values that a section cannot have; `problems` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{'.'.join(one.path)}: {one.text}" if one.path else one.text for one in problems))
        self.problems = tuple(problems)


class Secret:
    """A text that shows itself nowhere by accident."""

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
        """Return the text's."""
        return hash(self._text)

    def __repr__(self) -> str:
        """Hide the text."""
        return "Secret(hidden)"


def read_value(kind: Any, said: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
    """Return the value that is meant; or `NOT_READ`, after adding what is wrong with it to `problems`.

    Args:
        kind: the setting's annotation; a function in an `Annotated` takes what is said and raises `ValueError`.
        said: from TOML, or the text of a variable.
        path: where it stands.
        problems: what is wrong is added here.
    """
    origin = get_origin(kind)
    if origin is Union or origin is UnionType:
        kind = _meant(get_args(kind), said)
        origin = get_origin(kind)
    if kind is Any or (kind is NoneType and said is None):
        return said
    if hasattr(kind, "SETTINGS"):
        return kind.read(said, path, problems)
    if origin in (dict, list, tuple):
        return _read_all(kind, said, path, problems)
    try:
        return _read_one(kind, said)
    except ValueError as wrong:
        problems.append(Problem(path, ProblemKind.VALUE, str(wrong)))
        return NOT_READ


def _meant(kinds: tuple[Any, ...], said: Any) -> Any:
    """Return the one of several kinds that can be meant: None, a table, or else the first that is neither."""
    if said is None and NoneType in kinds:
        return NoneType
    tables = [kind for kind in kinds if get_origin(kind) is dict]
    if tables and isinstance(said, Mapping):
        return tables[0]
    return next(kind for kind in kinds if kind is not NoneType and kind not in tables)


def _read_all(kind: Any, said: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
    """Return a table by name, or a list or tuple, of values of one kind."""
    origin, before = get_origin(kind), len(problems)
    if origin is dict:
        if not isinstance(said, Mapping):
            problems.append(Problem(path, ProblemKind.VALUE, "must be a table"))
            return NOT_READ
        inner = get_args(kind)[1]
        table = {str(name): read_value(inner, each, (*path, str(name)), problems) for name, each in said.items()}
        return table if len(problems) == before else NOT_READ
    if not isinstance(said, list | tuple):
        problems.append(Problem(path, ProblemKind.VALUE, "must be a list"))
        return NOT_READ
    inner = get_args(kind)[0]
    values = [read_value(inner, each, (*path, str(number)), problems) for number, each in enumerate(said)]
    return origin(values) if len(problems) == before else NOT_READ


def _read_one(kind: Any, said: Any) -> Any:
    """Return a value without parts. Raises `ValueError`."""
    origin = get_origin(kind)
    if origin is Annotated:
        return kind.__metadata__[0](said)
    if origin is Literal:
        return _one_of(get_args(kind), said)
    if issubclass(kind, Enum):
        return kind(_one_of(tuple(each.value for each in kind), said.value if isinstance(said, kind) else said))
    return _PLAIN[kind](said)


def _one_of(choices: tuple[Any, ...], said: Any) -> Any:
    if isinstance(said, str) and said in choices:
        return said
    *most, last = map(repr, choices)
    raise ValueError(f"must be {', '.join(most)} or {last}" if most else f"must be {last}")


def _text(said: Any) -> str:
    if isinstance(said, str):
        return said
    raise ValueError("must be a text")


def _truth(said: Any) -> bool:
    if isinstance(said, bool):
        return said
    if isinstance(said, str | int) and str(said).strip().lower() in YES | NO:
        return str(said).strip().lower() in YES
    raise ValueError("must be true or false")


def _integer(said: Any) -> int:
    if isinstance(said, int) and not isinstance(said, bool):
        return said
    if isinstance(said, float) and said.is_integer():  # as JSON Schema counts
        return int(said)
    if isinstance(said, str) and len(said) <= DIGITS_AT_MOST and INTEGER.fullmatch(said.strip()):
        return int(said)
    raise ValueError("must be a whole number")


def _number(said: Any) -> float:
    if isinstance(said, int | float | str) and not isinstance(said, bool):
        try:
            value = float(said)
        except (ValueError, OverflowError):
            value = math.nan
        if math.isfinite(value):
            return value
    raise ValueError("must be a number")


def _path(said: Any) -> Path:
    if isinstance(said, str | Path) and "\0" not in str(said):
        return Path(said)
    raise ValueError("must be a path")


def _secret(said: Any) -> Secret:
    return said if isinstance(said, Secret) else Secret(_text(said))


_PLAIN: Final = {
    str: _text, bool: _truth, int: _integer, float: _number, Path: _path, Secret: _secret,
}  # fmt: skip
