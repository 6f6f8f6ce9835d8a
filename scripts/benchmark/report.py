"""The numbers as a table for people and as JSON for programs, beside what they should be."""

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from statistics import mean, median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from scripts.benchmark.aims import MICROSECONDS, Aim, aims
from scripts.benchmark.comparing import FIGURES, compared
from scripts.benchmark.peers import installed
from scripts.benchmark.plan import Plan
from scripts.benchmark.rounds import Series, twins_agree
from scripts.benchmark.targets import OPEN

LIBRARIES: Final = ("grpcio", "protobuf", "uvloop")
PEERS: Final = ("langgraph", "langchain")
VOID: Final = "VOID, the same server twice differed: "


def environment(plan: Plan) -> Mapping[str, Any]:
    """Say where this was measured."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in (*LIBRARIES, *(PEERS if installed() else ()))},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "server_cpu": plan.server_cpu,
        "client_cpu": plan.client_cpu,
        "rounds": plan.rounds,
        "rows": ", ".join(map(str, sorted(plan.rows))),
    }


def as_json(series: Series, plan: Plan) -> dict[str, Any]:
    """Return everything. Times are in microseconds; `p50` is a latency, `cpu` the server's, per request.

    What is compared with another revision are ratios, this tree's to the other's, round by round.
    """
    valid, ratios = twins_agree(series)
    return {
        "void": not valid,
        "environment": dict(environment(plan)),
        "same_server_twice": {str(in_flight): ratio for in_flight, ratio in ratios.items()},
        "targets": [
            {
                "target": target,
                "in_flight": in_flight,
                "rate": _spread([sample.rate for sample in samples]),
                "p50_us": _spread([sample.p50 * MICROSECONDS for sample in samples]),
                "p99_us": _spread([sample.p99 * MICROSECONDS for sample in samples]),
                "cpu_us": _spread([sample.cpu * MICROSECONDS for sample in samples]),
                "messages": {
                    "mean": mean(sample.mean_messages for sample in samples),
                    "max": max(sample.messages for sample in samples),
                },
            }
            for (target, in_flight), samples in series.items()
        ],
        "compared": [
            {
                "target": each.target,
                "in_flight": each.in_flight,
                **{name: _spread(each.ratios[name]) for name in FIGURES},
            }
            for each in compared(series, plan)
        ],
        "aims": [
            {
                "row": aim.row,
                "what": aim.what,
                "value": aim.value,
                "unit": aim.unit,
                "wanted": aim.wanted,
                "met": aim.met,
                "remark": aim.remark,
            }
            for aim in aims(series, plan.rows)
        ],
    }


def show(series: Series, plan: Plan, console: Console) -> None:
    """Print the tables; each says so if the run is void."""
    void = "" if twins_agree(series)[0] else VOID
    console.print(", ".join(f"{name} {value}" for name, value in environment(plan).items()), soft_wrap=True)
    console.print(_targets(series, void))
    if plan.against is not None:
        console.print(_compared(series, plan, void))
    console.print(_aims(series, plan.rows, void))


def _targets(series: Series, void: str) -> Table:
    _, ratios = twins_agree(series)
    same = ", ".join(f"{ratio:.2f}x at {in_flight} in flight" for in_flight, ratio in ratios.items())
    table = Table(
        title=f"{void}median, least and most of the rounds; the same server twice: {same}", title_justify="left"
    )
    table.add_column("target")
    for heading in ("in flight", "requests/s", "p50 us", "p99 us", "server CPU us", "messages"):
        table.add_column(heading, justify="right")
    for (target, in_flight), samples in series.items():
        table.add_row(
            target,
            str(in_flight) if in_flight != OPEN else "open loop",
            _range([sample.rate for sample in samples]),
            _range([sample.p50 * MICROSECONDS for sample in samples]),
            _range([sample.p99 * MICROSECONDS for sample in samples]),
            _range([sample.cpu * MICROSECONDS for sample in samples]),
            f"{mean(sample.mean_messages for sample in samples):.1f}, at most {max(each.messages for each in samples)}",
        )
    return table


def _compared(series: Series, plan: Plan, void: str) -> Table:
    name = "" if plan.against is None else plan.against.name
    table = Table(title=f"{void}this tree against {name}, round by round: median, least and most", title_justify="left")
    table.add_column("target")
    for heading in ("in flight", *FIGURES):
        table.add_column(heading, justify="right")
    for each in compared(series, plan):
        in_flight = str(each.in_flight) if each.in_flight != OPEN else "open loop"
        table.add_row(each.target, in_flight, *(_ratio(each.ratios[figure]) for figure in FIGURES))
    return table


def _ratio(values: Sequence[float]) -> str:
    return f"{median(values):.2f}x [{min(values):.2f}-{max(values):.2f}]"


def _aims(series: Series, rows: frozenset[int], void: str) -> Table:
    table = Table(title=f"{void}against DESIGN section 14", title_justify="left")
    for heading in ("row", "what", "measured", "wanted", ""):
        table.add_column(heading)
    for aim in aims(series, rows):
        verdict = "" if aim.met is None else "met" if aim.met else "missed"
        table.add_row(str(aim.row), aim.what, _measured(aim), aim.wanted, verdict)
    return table


def _measured(aim: Aim) -> str:
    return aim.remark if aim.value is None else f"{aim.value:.3g} {aim.unit}".strip()


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.0f} [{min(values):.0f}-{max(values):.0f}]"
