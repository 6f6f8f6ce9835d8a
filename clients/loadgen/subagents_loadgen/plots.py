"""Line plots as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 900
HEIGHT: Final = 260
LEFT: Final = 70
BOTTOM: Final = 40
TOP: Final = 24
STEPS: Final = 4
MOST_NINES: Final = 4.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot.

    Attributes:
        name: for the legend.
        kind: CSS classes.
        points: x and y, ascending in x.
        nines: x is a percentile, drawn so that each further nine takes the same room.
    """

    name: str
    kind: str
    points: Sequence[tuple[float, float]]
    nines: bool = False


def plot(lines: Sequence[Line], x_unit: str, y_unit: str, ticks: Sequence[str] = ()) -> str:
    """Return an SVG element.

    Args:
        lines: to be drawn from zero upwards.
        x_unit: name of the horizontal axis.
        y_unit: name of the vertical axis.
        ticks: percentiles to mark; none: even steps of x.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return "<p class=sub>nothing was measured</p>"
    nines = lines[0].nines
    axes = _Axes(
        MOST_NINES if nines else max(x for x, _ in points) or 1.0, _rounded(max(y for _, y in points)) or 1.0, nines
    )
    marks = [float(one) for one in ticks] or [axes.most_x * step / STEPS for step in range(STEPS + 1)]
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role=img aria-label="{escape(y_unit)} by {escape(x_unit)}">']
    for step in range(STEPS + 1):
        value = axes.most_y * step / STEPS
        y = axes.up(value)
        parts.append(f"<line class=grid x1={LEFT} x2={WIDTH - 10} y1={y:.1f} y2={y:.1f} />")
        parts.append(f"<text x={LEFT - 8} y={y + 4:.1f} text-anchor=end>{value:,.4g}</text>")
    below = HEIGHT - BOTTOM + 18
    parts += [f"<text x={axes.across(x):.1f} y={below} text-anchor=middle>{x:g}</text>" for x in marks]
    parts.append(f"<text x={WIDTH - 10} y={HEIGHT - 4} text-anchor=end>{escape(x_unit)}</text>")
    parts.append(f"<text x=4 y=14>{escape(y_unit)}</text>")
    for place, line in enumerate(lines):
        way = " L".join(f"{axes.across(x):.1f} {axes.up(y):.1f}" for x, y in line.points)
        at = LEFT + 60 + place * 130
        if way:
            parts.append(f'<path class="{line.kind}" d="M{way}"><title>{escape(line.name)}</title></path>')
        parts.append(f'<path class="{line.kind}" d="M{at} 10 h24" /><text x={at + 30} y=14>{escape(line.name)}</text>')
    return f"{''.join(parts)}</svg>"


@dataclass(frozen=True, slots=True)
class _Axes:
    most_x: float
    most_y: float
    nines: bool

    def across(self, x: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * min(1.0, (_nines(x) if self.nines else x) / self.most_x)

    def up(self, y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - y / self.most_y)


def _nines(percent: float) -> float:
    return MOST_NINES if percent >= 100 else -math.log10(1 - percent / 100)  # noqa: PLR2004  the whole, in per cent


def _rounded(value: float) -> float:
    """Return the next number upwards that reads well."""
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value)
