"""Memory, binds and dispatches over the number of turns that are open."""

from collections.abc import Sequence
from typing import Final

from scripts.benchmark.clients import turn_request
from scripts.benchmark.definitions import INSTANT
from scripts.benchmark.growth.curves import Curve, Figure, Point, change, each
from scripts.benchmark.growth.processes import MICROSECONDS, Place, Weighed, weighed
from scripts.benchmark.load import measure
from scripts.benchmark.targets import MANY

MEMORY: Final = "memory"
BIND: Final = "CPU per bind"
DISPATCH: Final = "CPU per dispatch"
FIGURES: Final = (Figure(MEMORY, "MB"), Figure(BIND, "us"), Figure(DISPATCH, "us"))
STEPS: Final = (1, 500, 1000, 2000, 3500, 5000)
MEASURED: Final = 320
"""Binds, and dispatches, with so many turns open."""
LIFETIME: Final = "1h"
PART: Final = 500


async def over_open_turns(place: Place, steps: Sequence[int]) -> Curve:
    """Leave so many turns open, each with one dispatch that is over, and bind and dispatch in further ones.

    Each step has a sidecar of its own: what was measured before weighs on none.

    Raises:
        ServerLost, WrongAnswer: it cannot be measured.
    """
    points: list[Point] = []
    for turns in steps:
        most = ["--turns", str(turns + 2 * MEASURED), "--turn-lifetime", LIFETIME]
        async with weighed(place, f"turns-{turns}", most) as sidecar:
            await _open(sidecar, turns)
            memory = sidecar.memory()
            bind, dispatch = await _binds(sidecar), await _dispatches(sidecar)
        points.append(Point(turns, {MEMORY: memory, BIND: bind, DISPATCH: dispatch}))
        place.tell(f"{turns:,} of {steps[-1]:,}: {memory:.0f} MB, {bind:.0f} us a bind, {dispatch:.0f} us a dispatch")
    curve = Curve("open-turns", "A sidecar over its open turns, record in SQLite", "open turns", FIGURES, points)
    findings = (
        each("memory for each further open turn", points, MEMORY, "MB"),
        change("CPU per bind, most against fewest open turns", curve.of(BIND)),
        change("CPU per dispatch, most against fewest open turns", curve.of(DISPATCH)),
    )
    return Curve(curve.name, curve.title, curve.over, curve.figures, points, findings)


async def _open(sidecar: Weighed, turns: int) -> None:
    """Bind turns and dispatch once in each; they stay open."""
    for begin in range(0, turns, PART):
        count = min(PART, turns - begin)
        jobs = await sidecar.client.prepared(INSTANT, 1, count, per_turn=1)
        await measure(sidecar.server, sidecar.client.dispatch, jobs, min(MANY, count))


async def _binds(sidecar: Weighed) -> float:
    requests = [turn_request(INSTANT) for _ in range(MEASURED)]
    sample = await measure(sidecar.server, sidecar.another.bind, requests, MANY)
    await sidecar.another.end_all()
    return sample.cpu * MICROSECONDS


async def _dispatches(sidecar: Weighed) -> float:
    jobs = await sidecar.another.prepared(INSTANT, 1, MEASURED)
    sample = await measure(sidecar.server, sidecar.another.dispatch, jobs, MANY)
    await sidecar.another.end_all()
    return sample.cpu * MICROSECONDS
