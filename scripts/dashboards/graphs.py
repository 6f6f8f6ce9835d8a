"""Graphs that several dashboards have, by what they show of a metric; and the marks of rollout steps in all of them."""

from typing import Final

from scripts.dashboards.panels import Graph
from scripts.dashboards.queries import quantile, rate, series, share, total
from sidecar.observability import call_names as calls
from sidecar.observability import names

STEPS: Final = (
    ("rollout step", f"changes({series(names.RAMP)}[1m]) > 0"),
    ("kill", f"increase({series(names.KILL_SWITCHES_FIRED)}[1m]) > 0"),
)


def events(title: str, name: str, by: str, description: str, *conditions: str) -> Graph:
    """Events per second."""
    return Graph(title, [(rate(name, by, *conditions), _legend(by))], "reqps", description)


def level(title: str, name: str, by: str, unit: str, description: str) -> Graph:
    """The present value of a gauge, or the whole value of a counter."""
    return Graph(title, [(total(name, by), _legend(by))], unit, description)


def times(title: str, name: str, description: str, *conditions: str) -> Graph:
    """Quantiles of a duration over all series."""
    lines = [(quantile(part, name, "", *conditions), f"p{part * 100:g}") for part in (0.5, 0.95, 0.99)]
    return Graph(title, lines, "s", description)


def slowest(title: str, name: str, by: str, description: str) -> Graph:
    """The 99th percentile of a duration, by label."""
    return Graph(title, [(quantile(0.99, name, by), f"{_legend(by)} p99")], "s", description)


def share_of(title: str, by: str, part: str, whole: str, description: str) -> Graph:
    """The share of the calls with one condition among those with another."""
    return Graph(title, [(share(calls.CALLS, by, part, whole), _legend(by))], "percentunit", description)


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.replace(" ", "").split(",") if label)
