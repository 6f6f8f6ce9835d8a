"""Charts as SVG, drawn here, so that a page needs no library and no inline style."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.cli.console.rates import KEPT
from sidecar.cli.console.words import line

WIDTH: Final = 300
HEIGHT: Final = 48
ROOM: Final = HEIGHT - 4


@dataclass(frozen=True, slots=True)
class Chart:
    """Calls per second over the last quarter of an hour.

    Attributes:
        offered, failed: points of a polyline.
        steps: where rollout steps were taken, and what they were.
        most: calls per second at the top.
    """

    offered: str
    failed: str
    steps: list[tuple[float, str]]
    most: float


def chart_of(series: Sequence[tuple[float, float, float]], steps: Sequence[tuple[float, Any]]) -> Chart | None:
    """Return a chart; None while there is nothing to draw.

    Args:
        series: seconds before now, calls offered and failed per second, oldest first.
        steps: seconds before now, and the row of the audit.
    """
    marks = [(_x(ago), line(row)) for ago, row in steps if 0 <= ago <= KEPT]
    if not series:
        return None
    most = max(1e-9, *(offered for _, offered, _ in series))
    offered = " ".join(f"{_x(ago):.1f},{_y(value, most):.1f}" for ago, value, _ in series)
    failed = " ".join(f"{_x(ago):.1f},{_y(value, most):.1f}" for ago, _, value in series)
    return Chart(offered, failed, marks, most)


def _x(ago: float) -> float:
    return round(WIDTH * (1 - ago / KEPT), 1)


def _y(value: float, most: float) -> float:
    return HEIGHT - 2 - ROOM * min(value / most, 1.0)
