"""The base class of the tables of the settings file. A subclass declares the keys of one table, `Section` parses them.

Sections are plain classes and no pydantic models, because their import is a part of every start. Only configured values
are parsed; a default is an attribute of the class.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypedDict, Unpack

from sidecar.settings.kinds import NOT_READ, InvalidValues, Problem, ProblemKind, read_value
from sidecar.settings.limits import ValueConstraints, unfit

NO_DEFAULT: Final = object()
"""The default of a required setting. None cannot mark one, because it is a valid default."""


class _Constraints(TypedDict, total=False):
    """The optional arguments of `setting`, as in `ValueConstraints`."""

    ge: Any
    gt: Any
    le: Any
    min_length: int
    max_length: int
    pattern: str
    check: Callable[[Any], None]


class Setting:
    """One setting of a section.

    Attributes:
        kind: the annotation, i.e. the type of the value.
        default: the default value; `NO_DEFAULT` if the setting is required.
        description: one sentence or more, for the documentation.
        limits: the constraints of the value.
    """

    __slots__ = ("default", "description", "kind", "limits")

    def __init__(self, kind: Any, default: Any, description: str, limits: ValueConstraints) -> None:
        self.kind = kind
        self.default = default
        self.description = description
        self.limits = limits

    def is_required(self) -> bool:
        """Return whether the setting has no default."""
        return self.default is NO_DEFAULT


def setting(default: Any = NO_DEFAULT, *, description: str = "", **limits: Unpack[_Constraints]) -> Any:
    """Describe a setting; a section assigns the result to the setting's name.

    Args:
        default: the default value, which is not checked; without it, the setting is required.
        description: the text for the documentation.
        limits: minimum `ge`, exclusive minimum `gt`, maximum `le`; lengths; the pattern of a text; and `check`, which
            raises `ValueError` for an invalid value.
    """
    return Setting(None, default, description, ValueConstraints(**limits))


class Section:
    """A table of the settings file. It has no other keys than its settings, and does not change after the start.

    A subclass annotates its settings and assigns `setting(...)` to each. It may override `_prepared`, which can change
    the table before its values are read, and `_check`, which is called afterwards.
    """

    SETTINGS: ClassVar[Mapping[str, Setting]] = {}
    """The settings by name, in the order of their definition."""

    def __init_subclass__(cls) -> None:
        """Collect the settings of the class. The default of a setting becomes an attribute of the class."""
        settings: dict[str, Setting] = {}
        # First the settings of the sections that it extends, so that the order is that of the definitions.
        for base in reversed(cls.__mro__[1:]):
            settings |= vars(base).get("SETTINGS", {})
        for name, kind in cls.__annotations__.items():
            if name == "SETTINGS":
                continue
            declared = cls.__dict__.get(name, NO_DEFAULT)
            settings[name] = (
                declared if isinstance(declared, Setting) else Setting(None, declared, "", ValueConstraints())
            )
            settings[name].kind = kind
            if not settings[name].is_required():
                setattr(cls, name, settings[name].default)
            # A required setting that was declared with `setting()`: the `Setting` would remain in the class, and be
            # returned as the value.
            elif declared is not NO_DEFAULT:
                delattr(cls, name)
        cls.SETTINGS = settings

    def __init__(self, /, **configured: Any) -> None:
        """Parse the values of a table, by the names of the settings. Raises `InvalidValues` with all problems."""
        problems: list[Problem] = []
        self._read_table(configured, (), problems)
        if problems:
            raise InvalidValues(problems)

    @classmethod
    def read(cls, configured: Any, path: tuple[str, ...], problems: list[Problem]) -> Any:
        """Return the section that a table describes; or `NOT_READ`, after adding the problems to `problems`.

        Args:
            configured: the table; or a section of this class, which is returned unchanged.
            path: the path of the section in the settings.
            problems: receives the problems, in the order of the settings.
        """
        # Defaults and tests construct sections directly.
        if isinstance(configured, cls):
            return configured
        if not isinstance(configured, Mapping):
            problems.append(Problem(path, ProblemKind.VALUE, "must be a table"))
            return NOT_READ
        before = len(problems)
        # Without `__init__`, which would raise: the caller collects the problems of all sections.
        section = cls.__new__(cls)
        section._read_table(configured, path, problems)  # noqa: SLF001  its own class
        return section if len(problems) == before else NOT_READ

    def _read_table(self, configured: Mapping[str, Any], path: tuple[str, ...], problems: list[Problem]) -> None:
        """Set the attributes from a table; add each problem of the table to `problems`."""
        before = len(problems)
        try:
            # Before the loop: it may remove keys that would otherwise be unknown.
            configured = self._prepared(configured)
        except ValueError as wrong:
            problems.append(Problem(path, ProblemKind.VALUE, str(wrong)))
            return
        for name, one in self.SETTINGS.items():
            if name in configured:
                # Only configured values are checked: defaults are part of the code.
                value = read_value(one.kind, configured[name], (*path, name), problems)
                problem = None if value is NOT_READ else unfit(one.limits, value)
                if problem is not None:
                    problems.append(Problem((*path, name), ProblemKind.VALUE, problem))
                # Not by assignment, which `__setattr__` refuses.
                self.__dict__[name] = value
            elif one.is_required():
                problems.append(Problem((*path, name), ProblemKind.MISSING, "is required"))
        unknown = [(*path, str(name)) for name in configured if name not in self.SETTINGS]
        problems += [Problem(place, ProblemKind.UNKNOWN, "no such setting") for place in unknown]
        # Only if every value is valid: `_check` may then rely on their kinds.
        if len(problems) == before:
            try:
                self._check()
            except ValueError as wrong:
                problems.append(Problem(path, ProblemKind.VALUE, str(wrong)))

    @classmethod
    def _prepared(cls, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the table that is to be parsed, e.g. without a former setting. Raises `ValueError`."""
        return configured

    def _check(self) -> None:
        """Raise `ValueError` if the values contradict each other."""

    def __setattr__(self, name: str, value: object) -> None:
        """Raise `AttributeError`: the settings do not change while the process runs."""
        raise AttributeError(f"settings are frozen: {type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal values."""
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self.SETTINGS)

    __hash__ = None  # type: ignore[assignment]  # values may be dicts, which cannot be hashed

    def __repr__(self) -> str:
        """Return a text with every value. A `Secret` shows no content."""
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.SETTINGS)
        return f"{type(self).__name__}({shown})"
