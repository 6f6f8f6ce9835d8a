"""Bounds on what a run measured; a broken one decides the exit code."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from subagents_loadgen.histogram import Histogram

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
LATENCIES: Final = (
    *("whole", "sent", "lag", "failed_whole"),
    *("bind", "first_frame", "dispatch", "resume", "cancel", "end"),
)
SINGLE: Final = ("throughput", "failed", "unsent", "violations", "left_open")
ALLOWED: Final = (
    f"{', '.join(SINGLE)}, reason.<REASON>, or <latency>.<mean|max|pN> with a latency of {', '.join(LATENCIES)}, "
    "turn.<name>"
)
UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "%": 0.01, "": 1.0}
LATENCY: Final = re.compile(r"(.+?)\.(mean|max|p\d+(?:\.\d+)?)")
REASON: Final = re.compile(r"reason\.[A-Z_0-9]+")
HUNDRED: Final = 100
BOUND: Final = re.compile(r"(<=|>=|<|>)\s*(\d+(?:\.\d+)?)\s*(us|ms|s|%|)")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound.

    Attributes:
        metric: e.g. `whole.p99`.
        comparison: `<`, `<=`, `>` or `>=`.
        bound: in seconds, operations a second, a share, or a count, as the metric is.
        text: as written.
    """

    metric: str
    comparison: str
    bound: float
    text: str

    def kept(self, value: float | None) -> bool:
        """Whether a value is within the bound; a metric that was not measured is not."""
        return value is not None and COMPARISONS[self.comparison](value, self.bound)


def threshold(metric: str, bound: str) -> Threshold:
    """Read a bound, e.g. `whole.p99` and `< 250ms`.

    Raises:
        ValueError: says what is wrong and what is allowed.
    """
    found = BOUND.fullmatch(bound.strip())
    if found is None:
        raise ValueError(f"{bound!r} is no bound; write e.g. '< 250ms', '<= 1%' or '>= 40'")
    name, statistic = latency_in(metric)
    latency = statistic != "" and (name in LATENCIES or name.startswith("turn."))
    if not (metric in SINGLE or latency or REASON.fullmatch(metric)):
        raise ValueError(f"{metric!r} is no metric; allowed: {ALLOWED}")
    if latency and found[3] not in {"us", "ms", "s"}:
        raise ValueError(f"{bound!r} needs a unit, as {metric} is a time: us, ms or s")
    if not latency and found[3] in {"us", "ms", "s"}:
        raise ValueError(f"{bound!r} is a time, and {metric} is none; write a number or a share, e.g. '<= 1%'")
    return Threshold(metric, found[1], float(found[2]) * UNITS[found[3]], f"{metric} {bound.strip()}")


def latency_in(metric: str) -> tuple[str, str]:
    """Return the latency and the statistic that a metric names, e.g. `whole` and `p99.9`; empty if it names none."""
    found = LATENCY.fullmatch(metric)
    if found is None or (found[2][0] == "p" and not 0 < float(found[2][1:]) <= HUNDRED):
        return "", ""
    return found[1], found[2]


def statistic_of(latencies: Histogram, statistic: str) -> float | None:
    """Return the mean, the maximum or a percentile in seconds; None if nothing was measured."""
    if not latencies.count:
        return None
    if statistic == "mean":
        return latencies.mean
    return latencies.most if statistic == "max" else latencies.percentile(float(statistic.removeprefix("p")))
