"""Reads `subagent-validate-refs.toml`: which checks are off, and where an export of the rollouts may lie."""

from dataclasses import dataclass
from pathlib import Path

from sidecar.core.decoding import Undecodable, from_toml
from sidecar.core.definitions.files.problems import printable, quoted
from sidecar.core.definitions.review.references import Check, ComparisonRefused


@dataclass(frozen=True, slots=True)
class ChecksSettings:
    """What the file says.

    Attributes:
        skipped: checks that are switched off.
        rollout_export: file that says which definitions are in which state, used if it is there; None: none is named.
    """

    skipped: frozenset[Check] = frozenset()
    rollout_export: Path | None = None


def checks_settings(file: Path) -> ChecksSettings:
    """Return what a settings file says; what is left out, or all if there is no file, is as usual.

    Raises:
        ComparisonRefused: the file says something else.
    """
    try:
        said = from_toml(file.read_bytes())
    except FileNotFoundError:
        return ChecksSettings()
    except (OSError, Undecodable) as error:
        raise ComparisonRefused(f"{file} cannot be read: {printable(str(error))}") from None
    checks, export = said.pop("checks", {}), said.pop("rollout_export", None)
    if said or not isinstance(checks, dict):
        raise ComparisonRefused(f"{file} may hold `rollout_export`, the table [checks], and nothing else")
    if export is not None and not (isinstance(export, str) and export):
        raise ComparisonRefused(f"{file}: rollout_export is a path, from the folder of this file")
    for name, value in checks.items():
        if name not in list(Check) or not isinstance(value, bool):
            raise ComparisonRefused(f"{file}: [checks] holds a, b, c or d, each true or false, not {quoted(name)}")
    skipped = frozenset(Check(name) for name, on in checks.items() if not on)
    return ChecksSettings(skipped, None if export is None else file.parent / export)
