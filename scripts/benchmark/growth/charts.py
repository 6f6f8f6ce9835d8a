"""Curves as SVG: a panel for each figure below the other, readable on a light and on a dark page."""

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10
from typing import Final

from scripts.benchmark.growth.curves import Curve, Figure

WIDTH: Final = 720
PANEL: Final = 110
ABOVE: Final = 56
BELOW: Final = 58
LEFT: Final = 70
RIGHT: Final = 24
GAP: Final = 40
TICKS: Final = 4
MILLION: Final = 1_000_000
STYLE: Final = """\
  .page { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 } .axis { stroke: #59636e; stroke-width: 1 }
  .line { stroke: #0969da; stroke-width: 2; fill: none } .dot { fill: #0969da }
  text { font: 12px system-ui, sans-serif } .title { font-size: 15px; font-weight: 600 } .end { text-anchor: end }
  .middle { text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #f0f6fc } .faint { fill: #9198a1 }
    .grid { stroke: #3d444d } .axis { stroke: #9198a1 } .line { stroke: #4493f8 } .dot { fill: #4493f8 }
  }
"""


def chart(curve: Curve, measured: str) -> str:
    """Return the picture of a curve.

    Args:
        curve: with at least one point.
        measured: when and where, for the last line.
    """
    height = ABOVE + len(curve.figures) * (PANEL + GAP) - GAP + BELOW
    most = max(point.at for point in curve.points)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(curve.title)}">',
        f"<style>\n{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<text class="text title" x="{LEFT}" y="24">{escape(curve.title)}</text>',
    ]
    for number, figure in enumerate(curve.figures):
        lines.extend(_panel(curve, figure, ABOVE + number * (PANEL + GAP), most))
    bottom = height - BELOW
    for tick in ticks(most):
        across = _across(tick, most)
        lines.append(f'<text class="faint middle" x="{across:.1f}" y="{bottom + 18}">{_short(tick)}</text>')
    lines += [
        f'<text class="text middle" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{bottom + 36}">{escape(curve.over)}</text>',
        f'<text class="faint end" x="{WIDTH - RIGHT}" y="{height - 6}">{escape(measured)}</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def ticks(most: float) -> Sequence[float]:
    """Return some round numbers from 0 up to `most`."""
    if most <= 0:
        return (0.0,)
    rough = most / TICKS
    size = 10.0 ** floor(log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    return tuple(step * number for number in range(int(most / step + 1e-9) + 1))


def _panel(curve: Curve, figure: Figure, top: float, most: float) -> Iterator[str]:
    values = curve.of(figure.name)
    highest = max(*values, 0.0) * 1.05 or 1.0
    bottom = top + PANEL
    yield f'<text class="text" x="{LEFT}" y="{top - 10}">{escape(figure.name)}, {escape(figure.unit)}</text>'
    for tick in ticks(highest):
        y = bottom - tick / highest * PANEL
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="faint end" x="{LEFT - 8}" y="{y + 4:.1f}">{_short(tick)}</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    places = [
        (_across(point.at, most), bottom - value / highest * PANEL)
        for point, value in zip(curve.points, values, strict=True)
    ]
    yield f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>'
    for x, y in places:
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>'


def _across(at: float, most: float) -> float:
    return LEFT + at / most * (WIDTH - RIGHT - LEFT)


def _short(value: float) -> str:
    if value >= MILLION:
        return f"{value / MILLION:g} million"
    return f"{value:,.0f}" if value >= TICKS or value == int(value) else f"{value:g}"
