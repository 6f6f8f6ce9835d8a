"""What `sidecar history backfill` prints."""

import json
from dataclasses import asdict
from typing import Any

import msgspec

from sidecar.core.history.legacy_records import Finding
from sidecar.operations.history.backfill import BackfillReport


def as_json(report: BackfillReport) -> str:
    """Return the report as one JSON object with the fields of `BackfillReport`."""
    fields: dict[str, Any] = asdict(report)
    fields["findings"] = [msgspec.to_builtins(each) for each in report.findings]
    fields["troubles"] = dict(sorted(report.troubles.items()))
    return json.dumps(fields, indent=2) + "\n"


def as_lines(report: BackfillReport) -> str:
    """Return the report as text: one line for each finding, then the counts."""
    lines = [_line(each) for each in report.findings]
    untold = report.troubles.total() - len(report.findings)
    if untold:
        lines.append(f"... and {untold} more")
    kept = "would be kept" if report.dry_run else "kept"
    lines.append(
        f"{report.lines} lines: {report.turns} turns {kept} ({report.tagged} with a sub-agent, "
        f"{report.components} components), {report.already} were there already, {report.left_out} left out"
    )
    lines += [f"  {trouble}: {times}" for trouble, times in sorted(report.troubles.items())]
    return "\n".join(lines) + "\n"


def _line(finding: Finding) -> str:
    place = f"line {finding.line}" + ("" if finding.offset is None else f", character {finding.offset}")
    turn = f" (turn {finding.turn_id})" if finding.turn_id else ""
    return f"{place}{turn}: {finding.trouble}: {finding.detail}"
