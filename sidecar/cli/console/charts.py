"""Computes the SVG charts of the page "Now": the calls of a slot over the last 15 minutes.

Drawn here and not in the browser, so that the page needs no library and no inline style, which its security policy
forbids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidecar.cli.console.rates import KEPT
from sidecar.cli.console.words import line

WIDTH: Final = 300
HEIGHT: Final = 48
"""Of the chart, in units of its SVG coordinates."""
ROOM: Final = HEIGHT - 4
"""The height for values: 2 units above and below stay free for the width of the line."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Calls per second over the last quarter of an hour.

    Attributes:
        offered, failed: points of a polyline, as SVG text, for all calls and for those that failed.
        steps: x coordinate and description of each rollout step in this time.
        most: calls per second at the top edge.
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
    # Not 0, because values are divided by it; a slot without calls is a line at the bottom.
    most = max(1e-9, *(offered for _, offered, _ in series))
    offered = " ".join(f"{_x(ago):.1f},{_y(value, most):.1f}" for ago, value, _ in series)
    failed = " ".join(f"{_x(ago):.1f},{_y(value, most):.1f}" for ago, _, value in series)
    return Chart(offered, failed, marks, most)


def _x(ago: float) -> float:
    return round(WIDTH * (1 - ago / KEPT), 1)


def _y(value: float, most: float) -> float:
    # The y axis of SVG points downwards.
    return HEIGHT - 2 - ROOM * min(value / most, 1.0)
