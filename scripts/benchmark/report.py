"""The numbers as a table for people and as JSON for programs, beside what they should be."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import mean, median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from scripts.benchmark.definitions import MOST_CHILDREN, SLEEP_SECONDS
from scripts.benchmark.load import Sample
from scripts.benchmark.peers import AGENTS, NOT_INSTALLED, TOOL_NODE, installed
from scripts.benchmark.rounds import (
    ASLEEP,
    BARE,
    BARE_BIND,
    BIND,
    ECHO,
    FAN_OUT,
    MANY,
    OBSERVED,
    SIDECAR,
    UNOBSERVED,
    Plan,
    Series,
    twins_agree,
)

LIBRARIES: Final = ("grpcio", "protobuf", "uvloop")
PEERS: Final = ("langgraph", "langchain")
MICROSECONDS: Final = 1e6
MILLISECONDS: Final = 1e3


@dataclass(frozen=True, slots=True)
class Aim:
    """One thing to reach; `row` is of the table in DESIGN section 14.

    Attributes:
        value: None if it could not be measured.
        wanted: e.g. `at least 0.95`; empty: shown for information only.
        met: None where nothing is wanted, or nothing was measured.
        remark: shown where there is no value.
    """

    row: int
    what: str
    value: float | None
    unit: str
    wanted: str = ""
    met: bool | None = None
    remark: str = ""


def aims(series: Series) -> Sequence[Aim]:
    """Compare what was measured with what it should be; everything is a median over the rounds."""
    bare, sidecar = _median(series, BARE, "rate"), _median(series, SIDECAR, "rate")
    echo = _median(series, ECHO, "cpu")
    further = (_median(series, FAN_OUT, "cpu") - _median(series, SIDECAR, "cpu")) / (MOST_CHILDREN - 1)
    messages = max(sample.messages for sample in series[FAN_OUT, MANY])
    return (
        _at_least(0, "rate with 1 child, against a bare stream of the same six messages", sidecar / bare, "x", 0.95),
        _at_most(3, f"{MOST_CHILDREN} children that sleep 20 ms, one dispatch at a time: p50",
                 _median(series, ASLEEP, "p50", 1) * MILLISECONDS, "ms", 25),
        _beside_a_peer(series, TOOL_NODE, 0.8),
        _beside_a_peer(series, AGENTS, 0.25),
        _at_most(6, "server CPU of each further child", further * MICROSECONDS, "us", 60),
        _at_most(6, "the same, in bare unary echoes", further / echo, "x", 0.2),
        _at_most(6, f"most messages of a dispatch of {MOST_CHILDREN}", messages, "", 3),
        _at_least(7, "rate with 1 % of traces, log records and metrics going to a collector, against without",
                  _median(series, OBSERVED, "rate") / _median(series, UNOBSERVED, "rate"), "x", 0.92),
        Aim(7, "server CPU with, against without",
            _median(series, OBSERVED, "cpu") / _median(series, UNOBSERVED, "cpu"), "x"),
        Aim(8, "rate of BindTurn, against a bare unary call of the same bytes",
            _median(series, BIND, "rate") / _median(series, BARE_BIND, "rate"), "x"),
    )  # fmt: skip


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
    }


def as_json(series: Series, plan: Plan) -> dict[str, Any]:
    """Return everything. Times are in microseconds; `p50` is a latency, `cpu` the server's, per request."""
    _, ratios = twins_agree(series)
    return {
        "environment": dict(environment(plan)),
        "same_server_twice": {str(in_flight): ratio for in_flight, ratio in ratios.items()},
        "targets": [
            {
                "target": target,
                "in_flight": in_flight,
                "rate": _spread([sample.rate for sample in samples]),
                "p50_us": _spread([sample.p50 * MICROSECONDS for sample in samples]),
                "cpu_us": _spread([sample.cpu * MICROSECONDS for sample in samples]),
                "messages": {
                    "mean": mean(sample.mean_messages for sample in samples),
                    "max": max(sample.messages for sample in samples),
                },
            }
            for (target, in_flight), samples in series.items()
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
            for aim in aims(series)
        ],
    }


def show(series: Series, plan: Plan, console: Console) -> None:
    """Print both tables."""
    console.print(", ".join(f"{name} {value}" for name, value in environment(plan).items()), soft_wrap=True)
    console.print(_targets(series))
    console.print(_aims(series))


def _targets(series: Series) -> Table:
    _, ratios = twins_agree(series)
    same = ", ".join(f"{ratio:.2f}x at {in_flight} in flight" for in_flight, ratio in ratios.items())
    table = Table(title=f"median, least and most of the rounds; the same server twice: {same}", title_justify="left")
    table.add_column("target")
    for heading in ("in flight", "requests/s", "p50 us", "server CPU us", "messages"):
        table.add_column(heading, justify="right")
    for (target, in_flight), samples in series.items():
        table.add_row(
            target,
            str(in_flight),
            _range([sample.rate for sample in samples]),
            _range([sample.p50 * MICROSECONDS for sample in samples]),
            _range([sample.cpu * MICROSECONDS for sample in samples]),
            f"{mean(sample.mean_messages for sample in samples):.1f}, at most {max(each.messages for each in samples)}",
        )
    return table


def _aims(series: Series) -> Table:
    table = Table(title="against DESIGN section 14", title_justify="left")
    for heading in ("row", "what", "measured", "wanted", ""):
        table.add_column(heading)
    for aim in aims(series):
        verdict = "" if aim.met is None else "met" if aim.met else "missed"
        table.add_row(str(aim.row), aim.what, _measured(aim), aim.wanted, verdict)
    return table


def _measured(aim: Aim) -> str:
    return aim.remark if aim.value is None else f"{aim.value:.3g} {aim.unit}".strip()


def _beside_a_peer(series: Series, peer: str, most: float) -> Aim:
    """Compare what a turn of sleeping sub-agents takes beyond their sleep with what it takes in another framework."""
    what = f"the same beyond the 20 ms, against {peer}, in its own process"
    if (peer, 1) not in series:
        return Aim(4, what, None, "x", f"at most {most:g} x", remark=NOT_INSTALLED)
    return _at_most(4, what, _overhead(series, ASLEEP) / _overhead(series, peer), "x", most)


def _overhead(series: Series, target: str) -> float:
    return _median(series, target, "p50", 1) - SLEEP_SECONDS


def _at_least(row: int, what: str, value: float, unit: str, least: float) -> Aim:
    return Aim(row, what, value, unit, f"at least {least:g} {unit}".strip(), value >= least)


def _at_most(row: int, what: str, value: float, unit: str, most: float) -> Aim:
    return Aim(row, what, value, unit, f"at most {most:g} {unit}".strip(), value <= most)


def _median(series: Series, target: str, field: str, in_flight: int = MANY) -> float:
    return median(_values(series[target, in_flight], field))


def _values(samples: Sequence[Sample], field: str) -> list[float]:
    return [float(getattr(sample, field)) for sample in samples]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.0f} [{min(values):.0f}-{max(values):.0f}]"
