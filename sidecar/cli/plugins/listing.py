"""Implements `sidecar plugins list`: lists all plugins, with the problems of those that cannot be loaded."""

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import asdict

from sidecar.policy.entry_points import PluginOffer, PluginSelection
from sidecar.policy.instances import Sections, with_instances
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import InventoryRow, PluginState, survey_plugins
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicySettings, resolve_policy

COLUMNS: Final = ("NAME", "KIND", "CONTRACT", "FROM", "STATE", "SUMMARY")


def plugin_rows(
    built_ins: Sequence[object],
    selection: PluginSelection,
    policy: PolicySettings,
    sections: Sections,
    offers: Sequence[PluginOffer] | None = None,
) -> tuple[InventoryRow, ...]:
    """List every plugin; a broken one is a row, not a failure.

    Args:
        built_ins: the built-in plugins, as the composition root passes them to `load_plugins`.
        selection: `plugins.enabled`.
        policy: the `[policy]` section, which decides which plugins are active. If it names an unknown plugin, no plugin
            is shown as active.
        sections: settings by kind and name of the instance. If one is invalid, no instance is listed.
        offers: the installed plugins; None: they are read from the metadata.

    Raises:
        PluginProblem: `plugins.enabled` names a plugin that is not installed.
    """
    host = survey_plugins(built_ins, selection, offers)
    active: Collection[tuple[PluginKind, str]] = ()
    # Suppressed, because an operator whose settings are wrong uses this list to find the right names.
    with suppress(PluginProblem):
        host = with_instances(host, sections)
        active = resolve_policy(policy, host).chosen
    return host.inventory(active)


def as_table(rows: Sequence[InventoryRow]) -> str:
    """Return the rows as aligned text; each problem follows its row."""
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    printed = [lines[0]]
    for row, line in zip(rows, lines[1:], strict=True):
        printed.append(line)
        printed.extend(f"    {part}" for part in row.error.splitlines())
    return "\n".join(printed) + "\n"


def as_json(rows: Sequence[InventoryRow]) -> str:
    """Return the rows as one JSON array of objects with the fields of `InventoryRow`."""
    return json.dumps([asdict(row) for row in rows], indent=2) + "\n"


def exit_code_of(rows: Sequence[InventoryRow]) -> int:
    """Return 1 if an enabled plugin would prevent the start, otherwise 0."""
    # A disabled plugin is not loaded, so it has neither state.
    return int(any(row.state in {PluginState.BROKEN, PluginState.INCOMPATIBLE} for row in rows))


def _cells(row: InventoryRow) -> tuple[str, ...]:
    origin = f"{row.distribution} {row.version}".rstrip()
    return (row.name, row.kind or "-", row.contract or "-", origin, row.state, row.summary)
