"""Memory and CPU time over many dispatches of one sidecar: a long day in two minutes."""

from typing import Final

from scripts.benchmark.definitions import INSTANT
from scripts.benchmark.growth.curves import Curve, Figure, Finding, Point, change, each, keeps_up, plateau
from scripts.benchmark.growth.processes import KILOBYTE, MEGABYTE, MICROSECONDS, Place, Weighed, weighed
from scripts.benchmark.load import measure
from scripts.benchmark.targets import MANY
from sidecar.operations.record.lists import MOST_CHANGES

MEMORY: Final = "memory"
CPU: Final = "CPU per dispatch"
KEPT: Final = "record"
LISTS: Final = "lists"
LAG: Final = "facts that lists lack"
POINTS: Final = 40
LIFETIME: Final = "1h"
"""So that no turn is forgotten for its age: what is kept of ended ones is bounded by their number alone."""
FIGURES: Final = (
    Figure(MEMORY, "MB"),
    Figure(CPU, "us"),
    Figure(KEPT, "MB"),
    Figure(LISTS, "MB"),
    Figure(LAG, "facts"),
)


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
            lag = sidecar.lag()
            sizes = {KEPT: sidecar.record() / MEGABYTE, LISTS: sidecar.lists() / MEGABYTE}
            points.append(Point(done, {MEMORY: sidecar.memory(), CPU: cpu, **sizes, LAG: lag}))
            shown = f"{points[-1].values[MEMORY]:.0f} MB, {cpu:.0f} us, lists lack {lag:,} facts"
            place.tell(f"{done:,} of {dispatches:,}: {shown}")
    curve = Curve("dispatches", "A sidecar over its dispatches, record in SQLite", "dispatches", FIGURES, points)
    findings = (
        plateau("memory", curve.of(MEMORY)),
        Finding("memory at the end", curve.of(MEMORY)[-1], "MB"),
        change("CPU per dispatch, last against first", curve.of(CPU)),
        *(
            each(f"{what} for each further dispatch", [_in_kilobytes(point, what) for point in points], what, "KB")
            for what in (KEPT, LISTS)
        ),
        keeps_up("facts that lists lack, most in the second half", curve.of(LAG), MOST_CHANGES, "facts"),
    )
    return Curve(curve.name, curve.title, curve.over, curve.figures, points, findings)


async def _step(sidecar: Weighed, dispatches: int) -> float:
    """Bind, dispatch and end; return the CPU time of a dispatch, in microseconds."""
    jobs = await sidecar.client.prepared(INSTANT, 1, dispatches)
    sample = await measure(sidecar.server, sidecar.client.dispatch, jobs, MANY)
    await sidecar.client.end_all()
    return sample.cpu * MICROSECONDS


def _in_kilobytes(point: Point, what: str) -> Point:
    return Point(point.at, {what: point.values[what] * KILOBYTE})
