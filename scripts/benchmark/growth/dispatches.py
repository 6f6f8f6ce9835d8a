"""Memory and CPU time over many dispatches of one sidecar: a long day in two minutes."""

from typing import Final

from scripts.benchmark.definitions import INSTANT
from scripts.benchmark.growth.curves import Curve, Figure, Finding, Point, change, each, plateau
from scripts.benchmark.growth.processes import KILOBYTE, MEGABYTE, MICROSECONDS, Place, Weighed, weighed
from scripts.benchmark.load import measure
from scripts.benchmark.targets import MANY

MEMORY: Final = "memory"
CPU: Final = "CPU per dispatch"
KEPT: Final = "record"
POINTS: Final = 40
LIFETIME: Final = "1h"
"""So that no turn is forgotten for its age: what is kept of ended ones is bounded by their number alone."""
FIGURES: Final = (Figure(MEMORY, "MB"), Figure(CPU, "us"), Figure(KEPT, "MB"))


async def over_dispatches(place: Place, dispatches: int) -> Curve:
    """Dispatch one child so often, 16 at a time, four times in each turn; look at the sidecar at 40 points.

    Raises:
        ServerLost, WrongAnswer: it cannot be measured.
    """
    points: list[Point] = []
    async with weighed(place, "dispatches", ["--turn-lifetime", LIFETIME]) as sidecar:
        step = max(MANY, dispatches // POINTS)
        while not points or points[-1].at < dispatches:
            done = (points[-1].at if points else 0) + step
            cpu = await _step(sidecar, step)
            points.append(Point(done, {MEMORY: sidecar.memory(), CPU: cpu, KEPT: sidecar.record() / MEGABYTE}))
            place.tell(f"{done:,} of {dispatches:,}: {points[-1].values[MEMORY]:.0f} MB, {cpu:.0f} us")
    curve = Curve("dispatches", "A sidecar over its dispatches, record in SQLite", "dispatches", FIGURES, points)
    findings = (
        plateau("memory", curve.of(MEMORY)),
        Finding("memory at the end", curve.of(MEMORY)[-1], "MB"),
        change("CPU per dispatch, last against first", curve.of(CPU)),
        each("record for each further dispatch", [_in_kilobytes(point) for point in points], KEPT, "KB"),
    )
    return Curve(curve.name, curve.title, curve.over, curve.figures, points, findings)


async def _step(sidecar: Weighed, dispatches: int) -> float:
    """Bind, dispatch and end; return the CPU time of a dispatch, in microseconds."""
    jobs = await sidecar.client.prepared(INSTANT, 1, dispatches)
    sample = await measure(sidecar.server, sidecar.client.dispatch, jobs, MANY)
    await sidecar.client.end_all()
    return sample.cpu * MICROSECONDS


def _in_kilobytes(point: Point) -> Point:
    return Point(point.at, {KEPT: point.values[KEPT] * KILOBYTE})
