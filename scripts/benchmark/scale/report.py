"""What was carried, as a table for people and as JSON for programs."""

import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from scripts.benchmark.scale.carried import SIDECARS, Carried

PARTS: Final = ("PostgreSQL", "sidecars", "pooler", "load")
WAITS: Final = 3
"""Shown of what PostgreSQL's connections were seen doing."""


def as_json(carried: Sequence[Carried], surroundings: Mapping[str, str]) -> Mapping[str, Any]:
    """Return everything; CPU time in microseconds for each dispatch."""
    return {
        "environment": {"python": platform.python_version(), "cores": os.cpu_count(), **surroundings},
        "carried": [
            {
                "what": each.what,
                "pooled": each.pooled,
                "many": each.many,
                "dispatches": each.dispatches,
                "refused": each.refused,
                "rate": each.rate,
                "p50_ms": each.p50 * 1e3,
                "p99_ms": each.p99 * 1e3,
                "cpu_us": {part: each.cpu_of(part) * 1e6 for part in PARTS},
                "cores": _cores(each),
                "commits": each.server.commits / each.dispatches,
                "syncs": each.server.syncs / each.dispatches,
                "log_kb": each.server.log_bytes / each.dispatches / 1e3,
                "connections": each.server.connections,
                "waits": dict(each.server.shares()),
            }
            for each in carried
        ],
    }


def show(carried: Sequence[Carried], surroundings: Mapping[str, str], console: Console) -> None:
    """Print a table for sidecars and one for stores, and what PostgreSQL was seen doing."""
    console.print(", ".join(f"{name} {said}" for name, said in surroundings.items()), soft_wrap=True)
    for what in dict.fromkeys(each.what for each in carried):
        console.print(_table(what, [each for each in carried if each.what == what]))
    for each in carried:
        shares = list(each.server.shares().items())[:WAITS]
        seen = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        console.print(f"{_way(each)}, {each.many} {each.what}: connections seen active: {seen}", soft_wrap=True)


def _table(what: str, carried: Sequence[Carried]) -> Table:
    latency = "dispatch" if what == SIDECARS else "turn"
    table = Table(title=f"{what} over one PostgreSQL; figures of a dispatch", title_justify="left")
    table.add_column("way")
    headings = (what, "dispatches/s", f"{latency} p50 ms", "p99 ms", *(f"{part} us" for part in PARTS))
    for heading in (*headings, "cores busy", "commits", "syncs", "log KB", "connections", "refused"):
        table.add_column(heading, justify="right")
    for each in carried:
        table.add_row(
            _way(each),
            str(each.many),
            f"{each.rate:.0f}",
            f"{each.p50 * 1e3:.1f}",
            f"{each.p99 * 1e3:.1f}",
            *(f"{each.cpu_of(part) * 1e6:.0f}" for part in PARTS),
            f"{_cores(each):.2f}",
            f"{each.server.commits / each.dispatches:.2f}",
            f"{each.server.syncs / each.dispatches:.2f}",
            f"{each.server.log_bytes / each.dispatches / 1e3:.1f}",
            str(each.server.connections),
            str(each.refused),
        )
    return table


def _cores(each: Carried) -> float:
    return sum(each.cpu_of(part) for part in PARTS) * each.rate


def _way(each: Carried) -> str:
    return "PgBouncer" if each.pooled else "direct"
