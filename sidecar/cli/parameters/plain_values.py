"""Converts the simple parameters of commands without Typer's own conversion, which is slow.

Typer converts every value with a pydantic adapter, and importing pydantic costs more CPU than most commands. Valid
texts, numbers, switches, choices and paths do not need it. Every other value goes to Typer, which also writes the
messages about invalid ones.
"""

import os
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

TYPERS_OWN: Final = object()
"""The result for a value that only Typer can convert or refuse."""
# Options of a path that need checks or conversions; these stay with Typer.
CHECKED_PATHS: Final = ("exists", "allow_dash", "resolve_path", "path_type", "writable")


class _Plain:
    """Tries the fast conversion before Typer's own, for each parameter."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command it is mixed into
        for parameter in parameters:
            # Only once for each parameter: this method is called several times for one command.
            if hasattr(parameter, "type_descriptor") and "process_value" not in vars(parameter):
                parameter.process_value = _fast_conversion(parameter)
        return parameters


class PlainCommand(_Plain, TyperCommand):
    """A command with the fast conversion."""


class PlainGroup(_Plain, TyperGroup):
    """A group with the fast conversion."""


class PlainTyper(typer.Typer):
    """The `typer.Typer` that all commands of the sidecar are added to: its commands have the fast conversion."""

    def __init__(self, **named: Any) -> None:
        super().__init__(cls=PlainGroup, **named)

    def command(self, name: str | None = None, **named: Any) -> Callable[[Any], Any]:
        """Add a command."""
        return super().command(name, cls=PlainCommand, **named)


def only_requested(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Keep only the requested command, because Typer builds all present commands before it runs one.

    Args:
        app: the group with all its commands; unchanged if `words` names none of them.
        words: the arguments after the name of the group.
    """
    name = words[0] if words else ""
    commands = [each for each in app.registered_commands if each.name == name]
    groups = [each for each in app.registered_groups if each.name == name]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups
    for group in groups:
        if group.typer_instance is not None:
            only_requested(group.typer_instance, words[1:])
    return app


def _fast_conversion(parameter: Any) -> Callable[[Any, Any], Any]:
    """Return a replacement of `parameter.process_value`; click passes it the context and the value as typed."""
    typers_own = parameter.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        plain = plain_value(parameter, value)
        if plain is TYPERS_OWN:
            return typers_own(ctx, value)
        # Typer's own conversion, which is skipped here, calls it, too.
        return plain if parameter.callback is None else parameter.callback(ctx, parameter, plain)

    return process_value


def plain_value(parameter: Any, value: Any) -> Any:
    """Return Typer's conversion of a value; `TYPERS_OWN` if only Typer can convert or refuse it.

    Args:
        parameter: a `TyperOption` or `TyperArgument`.
        value: as typed, or the default.
    """
    kind, info = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    many = parameter.multiple or parameter.nargs == -1
    # Not given. Click passes None for a single value and an empty list for several.
    if value is None or (many and not value):
        return TYPERS_OWN if parameter.required or value is not None else () if many else None
    if info.parser is not None:
        return TYPERS_OWN
    if not many:
        return _one(kind, info, value)
    if get_origin(kind) is not list or not isinstance(value, list | tuple):
        return TYPERS_OWN
    items = [_one(get_args(kind)[0], info, item) for item in value]
    return TYPERS_OWN if any(item is TYPERS_OWN for item in items) else items


def _one(kind: Any, info: Any, value: Any) -> Any:
    if kind is str or kind is bool:
        # Not `isinstance`: a subclass, e.g. `bool` for `int`, needs a conversion.
        return value if type(value) is kind else TYPERS_OWN
    if kind is int or kind is float:
        return _number(kind, info, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((one for one in kind if value is one or (info.case_sensitive and value == one.value)), TYPERS_OWN)
    return _path(info, value) if kind is Path else TYPERS_OWN


def _number(kind: type, info: Any, value: Any) -> Any:
    # Only digits and one point: signs, exponents, spaces and underscores are left to Typer.
    if isinstance(value, str) and value.isascii() and value.replace(".", "", 1 if kind is float else 0).isdigit():
        value = kind(value)
    within = type(value) is kind and (info.min is None or value >= info.min) and (info.max is None or value <= info.max)
    return value if within else TYPERS_OWN


def _path(info: Any, value: Any) -> Any:
    if not isinstance(value, str | Path) or any(getattr(info, name) for name in CHECKED_PATHS):
        return TYPERS_OWN
    # Typer refuses some existing paths, e.g. a folder where a file is expected. A path that does not exist is accepted.
    refusable = not (info.file_okay and info.dir_okay and os.access(value, os.R_OK))
    return TYPERS_OWN if refusable and os.path.lexists(value) else Path(value)
