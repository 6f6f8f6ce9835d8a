"""Implements `sidecar plugins doctor`: examines each installed plugin, enabled or not, in a separate process."""

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum, unique
from typing import Any, Final

from sidecar.cli.plugins import SECONDS
from sidecar.cli.plugins.child_process import ExaminationResult, examined
from sidecar.policy.entry_points import PluginOffer, PluginSelection, list_offers, select_offers
from sidecar.policy.kinds import PluginKind
from sidecar.policy.problems import PluginProblem

COLUMNS: Final = ("PLUGIN", "VERSION", "ENABLED", "STATE", "OFFERS")


@unique
class Health(StrEnum):
    """The result of examining a plugin."""

    HEALTHY = "healthy"
    """The plugin was imported and registered; each of its objects was created and closed."""
    UNCONFIGURED = "unconfigured"
    """No problem was found, but an object could not be created, because its settings are missing."""
    PRINTS = "prints"
    """The plugin works, but writes to standard output."""
    MISSING = "missing"
    """`plugins.enabled` has a name that no installed plugin has, or that several have."""
    BROKEN = "broken"
    """Importing, registering, creating or closing it raised an error."""
    INCOMPATIBLE = "incompatible"
    """The plugin was written for another version of an interface of the sidecar."""
    CRASHED = "crashed"
    """The plugin ended the process of the examination."""
    HANGS = "hangs"
    """The examination was not complete at its time limit."""


GOOD: Final = frozenset({Health.HEALTHY, Health.UNCONFIGURED})
"""Results that do not make the command fail. A plugin that `PRINTS` would mix its text into the output of commands."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the output.

    Attributes:
        plugin: `distribution:entry-point`; for a missing plugin the name in `plugins.enabled`.
        offers: `kind name` of each object that was examined.
        problem, where, remedy: empty if there is no problem.
    """

    plugin: str
    version: str
    enabled: bool
    state: Health
    offers: tuple[str, ...] = ()
    problem: str = ""
    where: str = ""
    remedy: str = ""


def findings(
    selection: PluginSelection, settings: Mapping[PluginKind, Mapping[str, Any]], seconds: float = SECONDS
) -> tuple[Finding, ...]:
    """Examine every installed plugin, each in a separate process.

    Args:
        selection: `plugins.enabled`.
        settings: settings of instances, by kind and name.
        seconds: the time limit for each plugin.

    Returns:
        First a row for each name in `plugins.enabled` that selects no plugin, then a row for each installed plugin.
    """
    offers = list_offers()
    enabled, missing = _selected(offers, selection)
    plain_settings = {str(kind): dict(by_name) for kind, by_name in settings.items()}  # for JSON
    # Disabled ones too: the command is for the time before an operator enables a plugin.
    # One after another: at the same time, they would use up each other's time limits.
    results = [(offer, examined(offer.label, plain_settings, seconds)) for offer in offers]
    return (*missing, *(_finding(offer, offer in enabled, result, seconds) for offer, result in results))


def as_table(rows: Sequence[Finding]) -> str:
    """Return the rows as aligned text; a problem follows its row."""
    cells = [COLUMNS, *(_cells(each) for each in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    printed = [lines[0]]
    for each, line in zip(rows, lines[1:], strict=True):
        details = (each.problem, f"  where: {each.where}", f"  what to do: {each.remedy}") if each.problem else ()
        printed += [line, *(f"    {part}" for part in details)]
    return "\n".join(printed) + "\n"


def as_json(rows: Sequence[Finding]) -> str:
    """Return the rows as one JSON array of objects with the fields of `Finding`."""
    return json.dumps([asdict(each) for each in rows], indent=2) + "\n"


def exit_code_of(rows: Sequence[Finding]) -> int:
    """Return 1 if any plugin, enabled or not, has a problem, otherwise 0."""
    return int(any(each.state not in GOOD for each in rows))


def _selected(
    offers: Sequence[PluginOffer], selection: PluginSelection
) -> tuple[frozenset[PluginOffer], list[Finding]]:
    """Return the enabled plugins, and a row for each name that is unknown or ambiguous."""
    enabled: set[PluginOffer] = set()
    missing = []
    for name in selection.enabled:
        try:
            # One name at a time, so that a wrong name does not hide the state of the others.
            enabled |= set(select_offers(offers, PluginSelection((name,))))
        except PluginProblem as problem:
            details = (problem.what, problem.where, problem.remedy)
            missing.append(Finding(name, "", True, Health.MISSING, (), *details))
    return frozenset(enabled), missing


def _finding(offer: PluginOffer, enabled: bool, child: ExaminationResult, seconds: float) -> Finding:
    state, details = _state(offer, child, seconds)
    objects = [line["found"] for line in child.lines if "found" in line]
    names = tuple(f"{each['kind']} {each['name']}" for each in objects)
    return Finding(offer.label, offer.version, enabled, state, names, *details)


def _state(offer: PluginOffer, child: ExaminationResult, seconds: float) -> tuple[Health, tuple[str, ...]]:
    """Return the result of an examination; if it is a problem, with the problem, where it is and its remedy.

    A plugin may have several problems. The checks are in the order of how precisely each names the cause: a plugin that
    reported an error may also hang at its exit.
    """
    reported = next((line for line in child.lines if "problem" in line), None)
    if reported is not None:
        problem = reported["problem"]
        state = Health.INCOMPATIBLE if reported["incompatible"] else Health.BROKEN
        return state, (problem["what"], problem["where"], problem["remedy"])
    if child.ended is None:
        what = f"it was still being {child.step} after {seconds:g} s"
        return Health.HANGS, (what, offer.where, "it must not wait there: let it connect later, in the background")
    # Both, because a plugin can end its process with code 0 before the examination is complete.
    if not child.done or child.ended != 0:
        what = f"it {_end(child.ended)} while it was being {child.step}"
        return Health.CRASHED, (what, offer.where, "repair or update it; it would take the sidecar down with it")
    if child.printed:
        what = f"it writes to standard output: {child.printed}"
        return Health.PRINTS, (what, offer.where, "let it use `logging`: standard output belongs to the command")
    unconfigured = any("unmade" in line for line in child.lines)
    return Health.UNCONFIGURED if unconfigured else Health.HEALTHY, ()


def _end(code: int) -> str:
    """Return how the process ended. `code`: its exit code; negative: the number of the signal that ended it."""
    if code >= 0:
        return f"ended its process with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:  # e.g. a real-time signal, which has no name in Python
        return f"was ended by signal {-code}"


def _cells(row: Finding) -> tuple[str, ...]:
    enabled = "yes" if row.enabled else "no"
    return (row.plugin, row.version or "-", enabled, row.state, ", ".join(row.offers) or "-")
