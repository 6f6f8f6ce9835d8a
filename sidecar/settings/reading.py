"""Reads the settings: a TOML file, overridden by variables such as `SIDECAR__DISPATCH__FAN_OUT_CAP`.

An unknown key, or a variable without a setting, prevents the start. Otherwise a misspelled setting would have no effect
and cause no message. All problems are reported together.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from sidecar.core.decoding import DecodeError, from_json, from_toml
from sidecar.policy.problems import nearest
from sidecar.settings.kinds import InvalidValues, Problem, ProblemKind
from sidecar.settings.problems import SettingsProblem
from sidecar.settings.section import Section
from sidecar.settings.settings import Settings

PREFIX: Final = "SIDECAR__"
LARGEST_FILE: Final = 256 * 1024
"""In bytes. The example file with every setting has about a tenth of this size."""

SettingPath = tuple[str, ...]
"""The path of a setting, e.g. `("dispatch", "fan_out_cap")`."""


def read_settings(file: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings of the process.

    Args:
        file: the TOML file; None: variables only.
        environ: the environment variables; those with other prefixes are ignored.

    Raises:
        SettingsProblem: the settings are wrong. The error lists all problems.
    """
    document, problems = ({}, []) if file is None else _document(file)
    for name, one in Settings.SETTINGS.items():
        if one.is_required():
            # An empty section, so that the message names the missing setting, `dispatch.fan_out_cap`, not the section.
            document.setdefault(name, {})
    variables: dict[SettingPath, str] = {}
    # Sorted, so that the problems are reported in the same order at each start.
    for name in sorted(name for name in environ if name.upper().startswith(PREFIX)):
        # Two underscores separate the parts, because the names of settings contain single ones.
        path = tuple(name[len(PREFIX) :].lower().split("__"))
        problem = _insert(document, path, environ[name])
        if problem is None:
            variables[path] = name
        else:
            problems.append(f"{name}: {problem}")
    try:
        # Even after a problem with a variable, so that the problems of the file are reported together with it.
        settings = Settings(**document)
    except InvalidValues as wrong:
        # `from None`: the cause repeats the problems without file and variable.
        raise SettingsProblem([*problems, *(_line(one, file, variables) for one in wrong.problems)]) from None
    if problems:
        raise SettingsProblem(problems)
    return settings


def _document(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the parsed file and no problem, or an empty document and the problem."""
    try:
        # The path of a large file by mistake, e.g. of a database, must give a message, and not fill the memory.
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            return {}, [f"{file}: is larger than {LARGEST_FILE} bytes"]
        return from_toml(content), []
    except OSError as error:
        return {}, [f"{file}: cannot be read: {error.strerror}"]
    except DecodeError as error:
        return {}, [f"{file}: is not TOML: {error}"]


def _insert(document: dict[str, Any], path: SettingPath, text: str) -> str | None:
    """Insert the value of a variable into `document`, or return why this is not possible."""
    kind: Any = Settings
    for depth, part in enumerate(path):
        kind, choices = _below(kind, part)
        # `_below` returns choices only if there is no setting or key `part`.
        if choices is not None:
            return f"no setting is called {'.'.join(path[: depth + 1])}{_hint(part, choices)}"
    # Lists and tables are written as JSON. Other values are taken as they are, so that a text needs no quotes.
    if _is_structured(kind):
        try:
            value = from_json(text)
        except DecodeError:
            return "must be JSON, e.g. [] or {}"
    else:
        value = text
    table: Any = document
    for part in path[:-1]:
        # A variable may set a value in a table that the file does not have.
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return f"{'.'.join(path)} is inside a setting that is not a table in the file"
    table[path[-1]] = value
    return None


def _below(kind: Any, part: str) -> tuple[Any, tuple[str, ...] | None]:
    """Look up a setting of a section, or a key of a table.

    A table, and a value of any type, accept every name except the empty one. A plain value contains no names.

    Returns:
        If it exists, its type, and None. Otherwise None, and the names to choose from.
    """
    kind = _without_none(kind)
    if isinstance(kind, type) and issubclass(kind, Section):
        declared = kind.SETTINGS.get(part)
        return (None, tuple(kind.SETTINGS)) if declared is None else (declared.kind, None)
    if get_origin(kind) is dict and part:
        return get_args(kind)[1], None
    if kind is Any and part:
        return kind, None
    return None, ()


def _without_none(kind: Any) -> Any:
    """Return the type without None, if it is a union of one type and None."""
    # A union of several types stays as it is: which one is meant depends on the value.
    others = [each for each in get_args(kind) if each is not NoneType]
    return others[0] if get_origin(kind) in {Union, UnionType} and len(others) == 1 else kind


def _is_structured(kind: Any) -> bool:
    kind = _without_none(kind)
    return get_origin(kind) in {list, dict, tuple} or (isinstance(kind, type) and issubclass(kind, Section))


def _hint(name: str, choices: tuple[str, ...]) -> str:
    """Return the end of a message: the most similar of the choices, or all of them."""
    meant = nearest(name, choices)
    return f"; did you mean `{meant}`?" if meant else f"; there are: {', '.join(choices)}" if choices else ""


def _in_sections(name: str) -> list[str]:
    """Return the paths of the settings with this name inside sections."""
    sections = ((path, _without_none(one.kind)) for path, one in Settings.SETTINGS.items())
    return [
        f"{path}.{name}"
        for path, kind in sections
        if isinstance(kind, type) and issubclass(kind, Section) and name in kind.SETTINGS
    ]


def _line(problem: Problem, file: Path | None, variables: Mapping[SettingPath, str]) -> str:
    """Return the line of a problem in the error: its source, the problem, and a hint."""
    return f"{_source(problem.path, file, variables)}: {_text_with_hint(problem)}"


def _source(path: SettingPath, file: Path | None, variables: Mapping[SettingPath, str]) -> str:
    """Return the source of a value: the variable that set it or a table around it, otherwise the file and the key."""
    # The longest prefix first: the variable of the value itself, before one of a table around it.
    for prefix in _prefixes(path):
        if prefix in variables:
            return variables[prefix]
    return f"{file or 'no file'}: {'.'.join(path)}" if path else str(file or "settings")


def _prefixes(path: SettingPath) -> Iterator[SettingPath]:
    return (path[:length] for length in range(len(path), 0, -1))


def _text_with_hint(problem: Problem) -> str:
    path = problem.path
    if problem.kind is ProblemKind.MISSING:
        return f"{problem.text} (or set {PREFIX}{'__'.join(path).upper()})"
    if problem.kind is ProblemKind.UNKNOWN:
        # Finds the section of the unknown name; a hint lists the names of this section.
        kind: Any = Settings
        for part in path[:-1]:
            kind, _ = _below(kind, part)
        # An unknown key at the top level may be a setting of a section that was written above the section's header.
        paths = _in_sections(path[-1]) if len(path) == 1 else []
        if paths:
            return f"{problem.text} at the top level, only inside a section: {', '.join(f'`{each}`' for each in paths)}"
        return f"{problem.text}{_hint(path[-1], _below(kind, path[-1])[1] or ())}"
    return problem.text
