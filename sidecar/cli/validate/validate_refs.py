"""Implements `sidecar validate-refs`: checks a change of the repository with the definitions before it is merged.

The help of the command describes the checks a to d. Source: PF1-D-52 to PF1-D-60.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum, unique
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from sidecar.core.decoding import DecodeError, from_json, from_toml
from sidecar.core.definitions.files.problems import printable, quoted
from sidecar.core.definitions.review.in_place import findings_of
from sidecar.core.definitions.review.ownership import CHECKS_FILE
from sidecar.core.definitions.review.references import (
    BaseSelection,
    Check,
    Comparison,
    ComparisonRefused,
    Finding,
    Severity,
)
from sidecar.core.identifiers import DefinitionId
from sidecar.core.rollout.facts import FlagPair
from sidecar.core.rollout.states import LifecycleState


@dataclass(frozen=True, slots=True)
class ChecksSettings:
    """The contents of the settings file of the command.

    Attributes:
        skipped: checks that are switched off.
        rollout_export: file with the states of the definitions, used if it exists; None: the settings name no file.
    """

    skipped: frozenset[Check] = frozenset()
    rollout_export: Path | None = None


def checks_settings(file: Path) -> ChecksSettings:
    """Return the contents of a settings file. Missing settings, or a missing file, mean the defaults.

    Raises:
        ComparisonRefused: the file has other contents.
    """
    try:
        content = from_toml(file.read_bytes())
    except FileNotFoundError:
        return ChecksSettings()
    except (OSError, DecodeError) as error:
        raise ComparisonRefused(f"{file} cannot be read: {printable(str(error))}") from None
    checks, export = content.pop("checks", {}), content.pop("rollout_export", None)
    # Whatever is left is unknown, e.g. a misspelled setting that would otherwise have no effect.
    if content or not isinstance(checks, dict):
        raise ComparisonRefused(f"{file} may hold `rollout_export`, the table [checks], and nothing else")
    if export is not None and not (isinstance(export, str) and export):
        raise ComparisonRefused(f"{file}: rollout_export is a path, from the folder of this file")
    for name, value in checks.items():
        if name not in list(Check) or not isinstance(value, bool):
            raise ComparisonRefused(f"{file}: [checks] holds a, b, c or d, each true or false, not {quoted(name)}")
    skipped = frozenset(Check(name) for name, on in checks.items() if not on)
    return ChecksSettings(skipped, None if export is None else file.parent / export)


PASSED: Final = 0
FAILED: Final = 1
NOT_COMPARED: Final = 2
"""Exit codes."""
NEED_BASE: Final = frozenset({Check.UNREFERENCED, Check.IN_PLACE})
"""Checks that compare the change with the version that it is merged into (the base)."""
Compare: TypeAlias = Callable[[Path, BaseSelection], Comparison]
"""Reads the changed definitions in a folder, and the base; raises `ComparisonRefused`."""


@unique
class Format(StrEnum):
    """How findings are printed."""

    HUMAN = "human"
    GITHUB = "github"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ValidateRefsOptions:
    """The options of the command.

    Attributes:
        base: the version to compare with.
        rollout_export: file with the states of the definitions; None: the file that the settings file names, if it
            exists. Without a file no definition counts as rolled back, and the output contains a warning.
        skipped: checks that are switched off, besides those that the settings file switches off.
    """

    base: BaseSelection
    rollout_export: Path | None = None
    skipped: frozenset[Check] = frozenset()
    shape: Format = Format.HUMAN


def validate_refs(root: Path, options: ValidateRefsOptions, compare: Compare, out: TextIO, errors: TextIO) -> int:
    """Run the checks, and print the findings.

    Returns:
        The exit code: 0 passed, 1 a check failed, 2 nothing was compared.
    """
    try:
        settings = checks_settings(root / CHECKS_FILE)
        skipped = options.skipped | settings.skipped
        # True unless both checks that need the base are skipped.
        if skipped < NEED_BASE | skipped and (options.base.ref is None) == (options.base.folder is None):
            raise ComparisonRefused("give the base, either --base REF or --base-dir DIR")
        configured_export = settings.rollout_export
        export = options.rollout_export or (
            configured_export if configured_export is not None and configured_export.exists() else None
        )
        # Files are read before `compare`, which may run git for seconds.
        rollouts = ExportedRollouts() if export is None else rollouts_in(export)
        comparison = compare(root, BaseSelection() if skipped >= NEED_BASE else options.base)
        # Check a would report this as a finding; without it, the other checks would pass on an empty configuration.
        if Check.LOADS in skipped and comparison.head.registries.config is None:
            raise ComparisonRefused("the configuration cannot be read; see what check a says")
    except ComparisonRefused as refusal:
        errors.write(f"{refusal}\n")
        return NOT_COMPARED
    # All checks run, also after a failed one: an author corrects everything before the next push.
    findings = tuple(findings_of(replace(comparison, **asdict(rollouts)), skipped))
    failed = any(finding.weight is Severity.ERROR for finding in findings)
    warning = _unknown_rollbacks_warning(configured_export) if export is None and Check.RESOLVES not in skipped else ""
    _print(findings, comparison, skipped=skipped, warning=warning, shape=options.shape, out=out)
    return FAILED if failed else PASSED


@dataclass(frozen=True, slots=True)
class ExportedRollouts:
    """The contents of an export of the rollouts, in the form of `Comparison`."""

    rolled_back: frozenset[DefinitionId] = frozenset()
    flags_retired: frozenset[DefinitionId] = frozenset()


def rollouts_in(file: Path) -> ExportedRollouts:
    """Return the contents of an export of the rollouts.

    The export is JSON: `{"definitions": [{"definition_id": "shop", "state": "rollback", "flag_pair": "on"}, …]}`, one
    row for each definition, so that an id may have several rows. A row without `flag_pair` contains nothing about
    flags. Other members are ignored.

    Raises:
        ComparisonRefused: the file cannot be read, is not an export, or was exported while the store was unavailable.
    """
    try:
        content = from_json(file.read_bytes())
        rows = [
            (DefinitionId(str(row["definition_id"])), LifecycleState(row["state"]), row.get("flag_pair"))
            for row in content["definitions"]
        ]
        replica_view = content.get("replica_view", False)
    # A JSON file may have any shape, so every access above can fail.
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        example = '{"definitions": [{"definition_id": "shop", "state": "promote"}]}'
        raise ComparisonRefused(f"{file} is not an export of rollouts, such as {example}") from None
    if replica_view:
        raise ComparisonRefused(f"{file} is what one replica served while the store was unavailable: export it again")
    pairs = [(name, pair) for name, state, pair in rows if state is not LifecycleState.ROLLBACK]
    # An id counts as rolled back only if all its definitions are: a newer content of the same id may serve.
    alive = frozenset(name for name, _ in pairs)
    gated = frozenset(name for name, pair in pairs if pair != FlagPair.RETIRED)
    return ExportedRollouts(frozenset(name for name, _, _ in rows) - alive, alive - gated)


def _unknown_rollbacks_warning(export: Path | None) -> str:
    """Return a warning that check b knows no rollbacks. Without it, a passed run would suggest that there are none.

    `export`: the missing file that the settings file names; None: it names none.
    """
    setting = f"`rollout_export` in {CHECKS_FILE}"
    if export is not None:
        return f"no definition counts as rolled back: there is no file {printable(str(export))} ({setting})"
    return f"no definition counts as rolled back: there is no export of rollouts (--rollout-export, or {setting})"


def _print(
    findings: Sequence[Finding],
    comparison: Comparison,
    *,
    skipped: frozenset[Check],
    warning: str,
    shape: Format,
    out: TextIO,
) -> None:
    """Print findings, disabled checks, and `warning`, unless it is empty."""
    off = [check.value for check in Check if check in skipped]
    notes = [*comparison.told, *([warning] if warning else [])]
    if shape is Format.JSON:
        json.dump(_as_object(findings, comparison.under, off, notes), out, indent=2)
        out.write("\n")
        return
    if shape is Format.GITHUB:
        out.writelines(_as_command(finding, comparison.under) + "\n" for finding in findings)
        if off:
            out.write(f"::notice title=subagent-validate-refs::checks switched off: {', '.join(off)}\n")
        if warning:
            # `pop`: the last note is the warning, which is not printed a second time below.
            out.write(f"::notice title=subagent-validate-refs::{_data(notes.pop())}\n")
    else:
        out.writelines(line + "\n" for finding in findings for line in _as_lines(finding))
    out.writelines(line + "\n" for line in notes)
    out.write(_summary(findings, off) + "\n")


def _as_lines(finding: Finding) -> Iterable[str]:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    weight = "" if finding.weight is Severity.ERROR else f"{finding.weight}: "
    field = f"{printable(finding.field)}: " if finding.field else ""
    yield f"{printable(place)}: check {finding.check}: {weight}{field}{finding.message}"
    yield from (f"    {detail}" for detail in finding.details)


def _as_command(finding: Finding, under: str) -> str:
    """Return a workflow command of GitHub Actions. Its message is the finding; its title has the changed fields."""
    title = f"check {finding.check}"
    if finding.field:
        title += f", {finding.field}"
    if finding.details:
        title += f" ({'; '.join(finding.details)})"
    properties = {"file": under + finding.file, "line": finding.line, "title": title}
    attributes = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{finding.weight} {attributes}::{_data(finding.message)}"


def _data(text: str) -> str:
    """Return text escaped for the message of a workflow command."""
    # The percent sign first, because the other replacements contain one.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return text escaped for an attribute of a workflow command."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _as_object(findings: Sequence[Finding], under: str, off: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    return {
        "passed": all(finding.weight is not Severity.ERROR for finding in findings),
        "findings": [asdict(finding) | {"file": under + finding.file} for finding in findings],
        "switched_off": list(off),
        "told": list(notes),
    }


def _summary(findings: Sequence[Finding], off: Sequence[str]) -> str:
    counts = [sum(finding.weight is weight for finding in findings) for weight in Severity]
    totals = ", ".join(
        f"{number} {weight}{'' if number == 1 else 's'}" for number, weight in zip(counts, Severity, strict=True)
    )
    switched = f"; switched off: {', '.join(off)}" if off else ""
    return f"{'failed' if counts[0] else 'passed'}: {totals}{switched}"
