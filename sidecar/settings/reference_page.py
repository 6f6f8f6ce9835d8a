"""Generates two documents from the classes of settings: the example file and the page docs/settings.md.

`python -m scripts.document_settings` writes them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeGuard, get_args, get_origin

from sidecar.settings.section import Section, Setting
from sidecar.settings.settings import Settings
from sidecar.settings.values import duration_text

ANY_NAME: Final = "<name>"
"""Stands in a path for a name that the operator chooses, e.g. in `[tls.peers.<name>]`."""
REQUIRED: Final = {
    "definitions.path": "examples/config",
    "dispatch.fan_out_cap": 3,
    f"server.host_groups.{ANY_NAME}.directory": "/run/sidecar/shop",
    f"server.host_groups.{ANY_NAME}.group": "shop-hosts",
    f"tls.peers.{ANY_NAME}.identities": ["spiffe://example.org/ns/assistant/sa/agent"],
    f"tls.peers.{ANY_NAME}.may": ["dispatch"],
    f"operators.key.{ANY_NAME}.file": "/etc/sidecar/operators/watchdog.pub",
    f"operators.key.{ANY_NAME}.roles": ["breaker"],
    f"operators.key.{ANY_NAME}.subjects": ["watchdog@example"],
    **{f"{issuer}.url": "https://login.example.com" for issuer in ("principals", "operators.issuer")},
    **{f"{issuer}.audience": "dispatch-sidecar" for issuer in ("principals", "operators.issuer")},
    "operators.issuer.roles": {"sidecar-operators": "operator"},
}
"""Example values of the required settings, which have no default to show."""


@dataclass(frozen=True, slots=True)
class Table:
    """A section at one path of the settings file.

    Attributes:
        path: the path, e.g. `record.sqlite`; empty for the settings themselves.
        defaults: the section with its default values; None if the section is required, is absent by default, or occurs
            once for each name.
        absent: whether the section is absent by default, or occurs once for each name. The example file has it as a
            comment, because its required settings would otherwise be set.
    """

    path: str
    section: type[Section]
    defaults: Section | None
    absent: bool = False

    def fields(self) -> Iterator[tuple[str, Setting, Any]]:
        """Yield name, description and default of each setting that is not a section itself."""
        for name, field in self.section.SETTINGS.items():
            if _section_of(field.kind) is None:
                # The parent section may construct the defaults with other values than those of the class.
                yield name, field, field.default if self.defaults is None else getattr(self.defaults, name)


def example_toml() -> str:
    """Return a settings file with every setting. Required ones have example values, all others are commented out."""
    lines = [
        "# Every setting, at its default; generated from the code by `python -m scripts.document_settings`.",
        "# A variable overrides the file: SIDECAR__DISPATCH__FAN_OUT_CAP=3. Durations: 250ms, 90s, 15m, 1h30m, PT1.5S.",
        "# Relative paths are resolved against the working directory; a relative path of a socket begins with ./.",
        "# An unknown key, or a variable without a setting, prevents the start.",
    ]
    for table in _tables(Settings, "", None):
        if table.path:
            mark = "#" if table.absent else ""
            lines += ["", f"# {_first_line(table.section)}", f"{mark}[{table.path}]"]
        for name, field, default in table.fields():
            lines += _example_lines(table, name, field, default)
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Return the page of the documentation, with one table for each section."""
    lines = [
        "# Settings",
        "",
        "`sidecar serve --config sidecar.toml` reads the settings once, at the start. A variable overrides the file: "
        "`SIDECAR__DISPATCH__FAN_OUT_CAP=3` sets `dispatch.fan_out_cap`; tables and lists are written as JSON. "
        "Durations have a unit: `250ms`, `90s`, `15m`, `1h30m`, or ISO 8601. Relative paths are resolved against the "
        "working directory; a relative path of a socket begins with `./`.",
        "",
        "An unknown key, or a `SIDECAR__*` variable without a setting, prevents the start (exit code 78); all "
        "problems are listed at once. Secrets are in files that only their owner may read, never in settings.",
        "",
        "`examples/settings.example.toml` has every setting at its default. `examples/sidecar.toml` is a short file to "
        "start with. `python -m scripts.document_settings` generates this page and the example file.",
    ]
    for table in _tables(Settings, "", None):
        rows = list(table.fields())
        if rows:
            title = f"`[{table.path}]`" if table.path else "Top level"
            lines += ["", f"## {title}", "", _first_line(table.section), ""]
            lines += ["| setting | default | meaning |", "|---|---|---|"]
            lines += [f"| `{name}` | {_cell(field, default)} | {field.description} |" for name, field, default in rows]
    return "\n".join(lines) + "\n"


def _tables(section: type[Section], path: str, defaults: Section | None, *, absent: bool = False) -> Iterator[Table]:
    """Yield a section and, recursively, the sections inside it, in the order of their definition."""
    yield Table(path, section, defaults, absent)
    for name, field in section.SETTINGS.items():
        inner, kind = (f"{path}.{name}" if path else name), field.kind
        inner_section = _section_of(kind)
        if inner_section is not None:
            default = None if field.is_required() else field.default
            yield from _tables(
                inner_section, inner, default, absent=absent or (default is None and not field.is_required())
            )
        elif get_origin(kind) is dict and _is_section(get_args(kind)[1]):
            yield from _tables(get_args(kind)[1], f"{inner}.{ANY_NAME}", None, absent=True)


def _section_of(kind: Any) -> type[Section] | None:
    """Return the section that a setting is, or may be (`OperatorSettings | None`)."""
    # `dict` is excluded, because its sections have names, and so tables of their own.
    return next((each for each in (kind, *get_args(kind)) if _is_section(each) and get_origin(kind) is not dict), None)


def _example_lines(table: Table, name: str, field: Setting, default: Any) -> list[str]:
    """Return the lines of one setting: its description as a comment, and its assignment."""
    comment = f"# {field.description}"
    if field.is_required():
        # A required setting of an optional section stays a comment, or the section would exist.
        return [comment, f"{'#' if table.absent else ''}{name} = {_toml(REQUIRED[f'{table.path}.{name}'])}"]
    # TOML has no null, and an empty table would be a line of its own.
    if default is None or default == {}:
        return [f"{comment} (`{name}` is unset.)"]
    return [comment, f"#{name} = {_toml(default)}"]


def _cell(field: Setting, default: Any) -> str:
    """Return the text of the column "default"."""
    if field.is_required():
        return "**required**"
    return "none" if default is None or default in ("", {}) else f"`{_toml(default)}`"


def _toml(value: Any) -> str:
    """Return a value in TOML. Strings, numbers, booleans and lists are written as in JSON."""
    if isinstance(value, dict) and value:
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, timedelta):
        return json.dumps(duration_text(value))
    if isinstance(value, Enum):
        return json.dumps(value.value)
    return json.dumps(str(value) if isinstance(value, Path) else value)


def _first_line(section: type[Section]) -> str:
    return (section.__doc__ or "").strip().partition("\n")[0]


def _is_section(annotation: Any) -> TypeGuard[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)
