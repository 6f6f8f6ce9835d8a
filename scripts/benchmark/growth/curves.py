"""What was measured along one axis, and what is concluded from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

PLATEAU_PERCENT: Final = 3.0
"""What memory may gain from the third to the last quarter of a run, by medians: more than allocators vary."""
LEAST_POINTS: Final = 8
"""With fewer, a quarter is one point."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What stands on a vertical axis."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Point:
    """One step.

    Attributes:
        at: how many there were.
        values: one for each figure, by name.
    """

    at: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Finding:
    """A conclusion.

    Attributes:
        met: None where nothing is wanted, or too little was measured.
    """

    what: str
    value: float | None
    unit: str
    wanted: str = ""
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """Everything along one axis.

    Attributes:
        name: of its file.
        over: what stands on the horizontal axis.
    """

    name: str
    title: str
    over: str
    figures: Sequence[Figure]
    points: Sequence[Point]
    findings: Sequence[Finding] = ()

    def of(self, figure: str) -> list[float]:
        """Return the values of one figure, in order."""
        return [point.values[figure] for point in self.points]


def plateau(what: str, values: Sequence[float]) -> Finding:
    """Say whether a figure has stopped growing: by its medians in the third and in the last quarter of a run."""
    wanted = f"at most {PLATEAU_PERCENT:g} % more in the last quarter of the run than in the third"
    if len(values) < LEAST_POINTS:
        return Finding(what, None, "%", wanted)
    quarter = len(values) // 4
    third, last = median(values[-2 * quarter : -quarter]), median(values[-quarter:])
    gained = (last / third - 1) * 100
    return Finding(what, gained, "%", wanted, gained <= PLATEAU_PERCENT)


def keeps_up(what: str, values: Sequence[float], usual: float, unit: str) -> Finding:
    """Say whether a lag grows: it may not be more in the second half of a run than in the first.

    Args:
        what: the lag.
        values: at each point of the run.
        usual: so much may lag at any time.
        unit: of all of these.
    """
    wanted = f"at most {usual:g}, or what it was in the first half"
    if len(values) < LEAST_POINTS:
        return Finding(what, None, unit, wanted)
    half = len(values) // 2
    first, second = max(values[:half]), max(values[half:])
    return Finding(what, second, unit, wanted, second <= max(usual, first))


def change(what: str, values: Sequence[float]) -> Finding:
    """Say how many times the first value the last one is."""
    return Finding(what, values[-1] / values[0] if len(values) > 1 and values[0] else None, "x")


def each(what: str, points: Sequence[Point], figure: str, unit: str) -> Finding:
    """Say what each further one of what stands on the horizontal axis adds, from the first point to the last."""
    first, last = points[0], points[-1]
    if first is last:
        return Finding(what, None, unit)
    return Finding(what, (last.values[figure] - first.values[figure]) / (last.at - first.at), unit)
