"""More load than can be carried, in an open loop: what is completed, and whether an operator gets through (row 38).

A generator that costs little (`open_loop.py`) finds the peak in a closed loop, then begins two or four times as many
turns a second, whatever becomes of those before. Goodput counts the turns of which each step was answered within its
deadline and each call succeeded. Peak and load take turns, because other work on the machine changes both; the share is
that of their sums. The sidecar has one core, generator and sub-agents have another: users do not take their processor
time from the sidecar. `make test` has one round of a second each and looks at outcomes; in `make torture` there are
three rounds, all in all a third of SIDECAR_TORTURE_SECONDS, and the printed shares are of interest.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from tests.support.operating import SETTINGS, Operator, prepared
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, SidecarProcess, place, started
from tests.system.torture.agents import agents_for, pause
from tests.system.torture.places import SECONDS, dice, tell

pytestmark = pytest.mark.system

RATES: Final = (2, 4)
"""Times the peak."""
ROUNDS: Final = 3 if SECONDS else 1
LASTS: Final = max(1.0, SECONDS / 6 / ROUNDS)
"""Seconds of each measurement."""
PATIENCE: Final = 2.0
"""Seconds that a user waits for the answer to each request."""
IN_FLIGHT: Final = 64
OF_SIDECAR, OF_OTHERS = 0, 1
"""Cores."""
KILLED: Final = "support"
READS_BEFORE: Final = 10
"""Looks at the rollout before the kill: the load generator needs a moment to begin."""
PAUSE: Final = 0.05
"""Seconds between two calls of the operator."""
MORE: Final = """
[dispatch.breaker]
failure_threshold = 1000000
"""


@dataclass
class Beside:
    """What an operator does beside the load.

    Attributes:
        health, reads: seconds of each look at health, and of each look at the rollout.
        kill: seconds of the one kill.
    """

    health: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    kill: float = 0.0

    async def work(self, sidecar: SidecarProcess, operator: Operator, over: asyncio.Event) -> None:
        """Go on until the load is over and the kill is done; kill as soon as the load has come."""
        while not (over.is_set() and self.kill):
            await pause(PAUSE)
            began = time.monotonic()
            assert (await sidecar.page("/healthz")).status_code == 200
            self.health.append(time.monotonic() - began)
            began = time.monotonic()
            await operator.status(KILLED)
            self.reads.append(time.monotonic() - began)
            if len(self.reads) == READS_BEFORE:
                began = time.monotonic()
                assert (await operator.killed(KILLED)).changed
                self.kill = time.monotonic() - began


@contextmanager
def cores_apart(sidecar: SidecarProcess) -> Iterator[None]:
    """Give the sidecar a core, and this process another one."""
    before = os.sched_getaffinity(0)
    if {OF_SIDECAR, OF_OTHERS} <= before:
        for thread in Path(f"/proc/{sidecar.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {OF_SIDECAR})
        os.sched_setaffinity(0, {OF_OTHERS})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@asynccontextmanager
async def overloaded() -> AsyncIterator[tuple[SidecarProcess, Operator]]:
    """Have a sidecar whose sub-agent answers within a tenth of a second."""
    with place() as folder:
        async with AsyncExitStack() as opened:
            operator = Operator(folder=folder, signer=prepared(folder))
            await opened.enter_async_context(agents_for(folder, dice(1)))
            more = SETTINGS.format(folder=folder) + MORE
            sidecar = await opened.enter_async_context(started(folder, more=more))
            await sidecar.event("sidecar.readiness")
            opened.enter_context(cores_apart(sidecar))
            yield sidecar, operator


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def loaded(sidecar: SidecarProcess, *how: str) -> dict[str, Any]:
    """Have the generator put load on the sidecar; return its report, with the sidecar's share of a core."""
    secret = str(sidecar.folder / "dispatch" / "boot-secret")
    where = ["--target", sidecar.dispatch_target, "--secret", secret, "--name", uuid4().hex]
    what = ["--seconds", str(LASTS), "--deadline", str(PATIENCE)]
    began, cpu = time.monotonic(), cpu_seconds(sidecar.process.pid)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.system.torture.open_loop", *where, *what, *how),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    said, _ = await process.communicate()
    report: dict[str, Any] = json.loads(said)
    return report | {"sidecar_share": (cpu_seconds(sidecar.process.pid) - cpu) / (time.monotonic() - began)}


async def rounds(sidecar: SidecarProcess, times: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measure the peak and what is completed under the load, in turns."""
    peaks, loads = [], []
    for _ in range(ROUNDS):
        peaks.append(await loaded(sidecar, "--in-flight", str(IN_FLIGHT)))
        rate = times * max(1.0, peaks[-1]["per_second"])
        loads.append(await loaded(sidecar, "--rate", str(rate)))
    return peaks, loads


def mean(reports: list[dict[str, Any]], what: str) -> float:
    """Return the mean of a figure."""
    return float(sum(each[what] for each in reports) / len(reports))


def told(beside: Beside, peaks: list[dict[str, Any]], loads: list[dict[str, Any]]) -> Mapping[str, object]:
    """Return the figures of a run."""
    peak, done = mean(peaks, "per_second"), mean(loads, "per_second")
    return {
        "turns/s at the peak": round(peak),
        "turns/s completed": round(done),
        "% of the peak": round(100 * done / max(1.0, peak)),
        "ms for a completed turn at the median": round(mean(loads, "p50_ms")),
        "% of a core for the sidecar": round(100 * mean(loads, "sidecar_share")),
        "% at the peak": round(100 * mean(peaks, "sidecar_share")),
        "% of a core for the generator": round(100 * mean(loads, "cpu_share")),
        "ms by which the generator was late at most": round(max(each["late_ms"] for each in loads)),
        "ms for the kill": round(1000 * beside.kill),
        "ms for health at most": round(1000 * max(beside.health)),
        "ms for a look at the rollout at most": round(1000 * max(beside.reads)),
        "of": len(beside.health),
    }


@requirement("SX-38")
@pytest.mark.parametrize("times", RATES)
@pytest.mark.seconds(120 + 4 * LASTS * ROUNDS)
async def test_beside_more_load_than_can_be_carried_an_operator_gets_through(times: int) -> None:
    """Health and rollout answer, the kill holds, turns are completed; the share of the peak is printed."""
    beside, over = Beside(), asyncio.Event()
    async with overloaded() as (sidecar, operator), asyncio.TaskGroup() as group:
        group.create_task(beside.work(sidecar, operator, over))
        peaks, loads = await rounds(sidecar, times)
        over.set()
    assert beside.kill
    # Within the second of a short run, a busy machine may complete no turn.
    assert not SECONDS or all(each["done"] for each in (*peaks, *loads))
    tell(f"{times} times the load", 0, told(beside, peaks, loads))
    tell("of it failed", 0, {why: count for each in loads for why, count in each["failed"].items()})
