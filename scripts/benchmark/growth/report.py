"""Curves as tables for people, as JSON for programs, and as pictures for the docs."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table

from scripts.benchmark.growth.charts import chart
from scripts.benchmark.growth.curves import Curve, Finding

LINES: Final = 10
"""Of a table, or somewhat more: pictures and JSON have every point."""


def as_json(curves: Sequence[Curve]) -> Mapping[str, Any]:
    """Return everything."""
    return {
        "environment": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "date": _today(),
        },
        "curves": [msgspec.to_builtins(curve) for curve in curves],
    }


def show(curves: Sequence[Curve], console: Console) -> None:
    """Print a table of points and one of conclusions for each curve."""
    for curve in curves:
        table = Table(title=curve.title, title_justify="left")
        table.add_column(curve.over, justify="right")
        for figure in curve.figures:
            table.add_column(f"{figure.name}, {figure.unit}", justify="right")
        for point in curve.points[:: max(1, len(curve.points) // LINES)]:
            table.add_row(f"{point.at:,}", *(f"{point.values[figure.name]:,.4g}" for figure in curve.figures))
        console.print(table)
        for finding in curve.findings:
            console.print(f"{finding.what}: {_value(finding)}", soft_wrap=True)
        console.print()


def draw(curves: Sequence[Curve], folder: Path, note: str = "") -> Sequence[Path]:
    """Write a picture of each curve into a folder, and return the files; `note` stands under each."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for curve in curves:
        file = folder / f"{curve.name}.svg"
        place = ", ".join(filter(None, (_today(), f"Python {platform.python_version()}, {os.cpu_count()} cores", note)))
        file.write_text(chart(curve, place), encoding="utf-8")
        written.append(file)
    return written


def _value(finding: Finding) -> str:
    if finding.value is None:
        return "not measured: too few points"
    verdict = "" if finding.met is None else f" ({finding.wanted}: {'met' if finding.met else 'missed'})"
    return f"{finding.value:.3g} {finding.unit}{verdict}"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
