"""Start, binds and memory over the number of definitions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from scripts.benchmark.clients import turn_request
from scripts.benchmark.definitions import INSTANT, write_groups
from scripts.benchmark.growth.curves import Curve, Figure, Point, change, each
from scripts.benchmark.growth.processes import MICROSECONDS, Place, Weighed, weighed
from scripts.benchmark.load import measure
from scripts.benchmark.starts import starts
from scripts.benchmark.targets import MANY

START: Final = "start"
START_CPU: Final = "CPU of a start"
MEMORY: Final = "memory"
BIND: Final = "CPU per bind"
FIGURES: Final = (Figure(START, "s"), Figure(START_CPU, "s"), Figure(MEMORY, "MB"), Figure(BIND, "us"))
STEPS: Final = (10, 50, 100, 250, 500, 1000)
GROUP: Final = 10
"""Definitions of an orchestrator with nine sub-agents: so every bind has a surface of the same size."""
STARTS: Final = 3
BINDS: Final = 480


async def over_definitions(place: Place, steps: Sequence[int]) -> Curve:
    """Start `sidecar serve` and bind turns with so many definitions: tens of them, as each orchestrator has nine.

    Raises:
        ServerLost, WrongAnswer: it cannot be measured.
    """
    points: list[Point] = []
    for definitions in steps:
        folder = place.folder / f"definitions-{definitions}"
        folder.mkdir()
        write_groups(folder / "definitions", max(1, definitions // GROUP), GROUP - 1)
        _, sidecar = starts(folder, folder / "definitions", place.server_cpu)
        started = await sidecar.measure(STARTS)
        async with weighed(replace(place, folder=folder, definitions=folder / "definitions"), "bound") as bound:
            memory, cpu = bound.memory(), await _binds(bound)
        values = {START: started.p50, START_CPU: started.cpu, MEMORY: memory, BIND: cpu}
        points.append(Point(definitions, values))
        place.tell(f"{definitions:,} of {steps[-1]:,}: {started.p50:.2f} s, {memory:.0f} MB, {cpu:.0f} us a bind")
    curve = Curve("definitions", "A sidecar over its definitions", "definitions", FIGURES, points)
    findings = (
        each("start for each further definition", points, START, "s"),
        each("memory for each further definition", points, MEMORY, "MB"),
        change("CPU per bind, most against fewest definitions", curve.of(BIND)),
    )
    return Curve(curve.name, curve.title, curve.over, curve.figures, points, findings)


async def _binds(sidecar: Weighed) -> float:
    """Bind turns of the first orchestrator; return the CPU time of a bind, in microseconds."""
    sample = None
    for _ in range(2):  # the first ones warm up
        requests = [turn_request(f"{INSTANT}-0") for _ in range(BINDS)]
        sample = await measure(sidecar.server, sidecar.client.bind, requests, MANY)
        await sidecar.client.end_all()
    assert sample is not None  # noqa: S101  for the type checker: the loop has run
    return sample.cpu * MICROSECONDS
