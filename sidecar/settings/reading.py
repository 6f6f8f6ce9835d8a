"""Reads the settings: a TOML file, overridden by variables such as `SIDECAR__DISPATCH__FAN_OUT_CAP`.

Nothing is ignored silently: an unknown key, or a variable without a setting, prevents the start. All problems are
reported together.
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
"""In bytes. The example file with every setting has about a tenth of it."""

Path_ = tuple[str, ...]


def read_settings(file: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings.

    Args:
        file: the TOML file; None: variables only.
        environ: the environment.

    Raises:
        SettingsProblem: lists all problems.
    """
    document, problems = ({}, []) if file is None else _document(file)
    for name, one in Settings.SETTINGS.items():
        if one.is_required():
            document.setdefault(name, {})  # so that a missing setting is reported by its full name
    variables: dict[Path_, str] = {}
    # Sorted, so that the problems are reported in the same order at each start.
    for name in sorted(name for name in environ if name.upper().startswith(PREFIX)):
        # Two underscores separate the parts, because the names of settings contain single ones.
        path = tuple(name[len(PREFIX) :].lower().split("__"))
        problem = _claim(document, path, environ[name])
        if problem is None:
            variables[path] = name
        else:
            problems.append(f"{name}: {problem}")
    try:
        # Although there may be problems already: the file's own problems are to be reported with those of the
        # variables.
        settings = Settings(**document)
    except InvalidValues as wrong:
        raise SettingsProblem([*problems, *(_line(one, file, variables) for one in wrong.problems)]) from None
    if problems:
        raise SettingsProblem(problems)
    return settings


def _document(file: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        content = file.read_bytes()
        # A wrong path, e.g. that of a database, must give a message and not minutes of parsing.
        if len(content) > LARGEST_FILE:
            return {}, [f"{file}: is larger than {LARGEST_FILE} bytes"]
        return from_toml(content), []
    except OSError as error:
        return {}, [f"{file}: cannot be read: {error.strerror}"]
    except DecodeError as error:
        return {}, [f"{file}: is not TOML: {error}"]


def _claim(document: dict[str, Any], path: Path_, text: str) -> str | None:
    """Insert a variable's value into `document`, or return why no setting has that name."""
    kind: Any = Settings
    for depth, part in enumerate(path):
        kind, known = _below(kind, part)
        if known is not None:
            return f"no setting is called {'.'.join(path[: depth + 1])}{_hint(part, known)}"
    # A list or table has no other notation in a variable. Texts are taken as they are, without JSON's quotes.
    if _is_structured(kind):
        try:
            value = from_json(text)
        except DecodeError:
            return "must be JSON, e.g. [] or {}"
    else:
        value = text
    table: Any = document
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            return f"{'.'.join(path)} is inside a setting that is not a table in the file"
    table[path[-1]] = value
    return None


def _below(kind: Any, part: str) -> tuple[Any, tuple[str, ...] | None]:
    """Return the type of a member; or, if there is no such member, the existing names."""
    kind = _said(kind)
    if isinstance(kind, type) and issubclass(kind, Section):
        one = kind.SETTINGS.get(part)
        return (None, tuple(kind.SETTINGS)) if one is None or not part else (one.kind, None)
    if get_origin(kind) is dict and part:
        return get_args(kind)[1], None
    return (kind, None) if kind is Any and part else (None, ())


def _said(kind: Any) -> Any:
    """Return the type without None, if it is a union of one type and None."""
    others = [each for each in get_args(kind) if each is not NoneType]
    return others[0] if get_origin(kind) in {Union, UnionType} and len(others) == 1 else kind


def _is_structured(kind: Any) -> bool:
    kind = _said(kind)
    return get_origin(kind) in {list, dict, tuple} or (isinstance(kind, type) and issubclass(kind, Section))


def _hint(name: str, known: tuple[str, ...]) -> str:
    meant = nearest(name, known)
    return f"; did you mean `{meant}`?" if meant else f"; there are: {', '.join(known)}" if known else ""


def _in_sections(name: str) -> list[str]:
    """Return the paths of the settings with this name inside sections."""
    sections = ((path, _said(one.kind)) for path, one in Settings.SETTINGS.items())
    return [
        f"{path}.{name}"
        for path, kind in sections
        if isinstance(kind, type) and issubclass(kind, Section) and name in kind.SETTINGS
    ]


def _line(problem: Problem, file: Path | None, variables: Mapping[Path_, str]) -> str:
    return f"{_source(problem.path, file, variables)}: {_sentence(problem)}"


def _source(path: Path_, file: Path | None, variables: Mapping[Path_, str]) -> str:
    """Return the source of a value: the variable that set it, otherwise file and key."""
    for prefix in _prefixes(path):
        if prefix in variables:
            return variables[prefix]
    return f"{file or 'no file'}: {'.'.join(path)}" if path else str(file or "settings")


def _prefixes(path: Path_) -> Iterator[Path_]:
    return (path[:length] for length in range(len(path), 0, -1))


def _sentence(problem: Problem) -> str:
    path = problem.path
    if problem.kind is ProblemKind.MISSING:
        return f"{problem.text} (or set {PREFIX}{'__'.join(path).upper()})"
    if problem.kind is ProblemKind.UNKNOWN:
        kind: Any = Settings
        for part in path[:-1]:
            kind, _ = _below(kind, part)
        moved = _in_sections(path[-1]) if len(path) == 1 else []
        if moved:
            return f"{problem.text}; it belongs to another one: {', '.join(f'`{each}`' for each in moved)}"
        return f"{problem.text}{_hint(path[-1], _below(kind, path[-1])[1] or ())}"
    return problem.text
