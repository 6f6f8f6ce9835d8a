"""More load than can be carried, in an open loop: what is completed, and whether an operator gets through (row 38).

The load generator finds the peak in a closed loop, then begins two or four times as many turns a second, whatever
becomes of those before. The peak is measured right before, because other work on the machine changes it. `make test`
has a second of each and looks at outcomes and counts; in `make torture` each lasts a sixth of SIDECAR_TORTURE_SECONDS,
and the printed share is of interest. Turns that end late enough to miss the measurement count in neither.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.support.operating import SETTINGS, Operator, prepared
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, SidecarProcess, place, started
from tests.system.torture.agents import agents_for, pause
from tests.system.torture.places import SECONDS, dice, tell

pytestmark = pytest.mark.system

RATES: Final = (2, 4)
"""Times the peak."""
LASTS: Final = max(1.0, SECONDS / 6)
"""Seconds of each measurement."""
PATIENCE: Final = "2s"
"""How long a user waits for an answer."""
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
            yield sidecar, operator


async def loaded(sidecar: SidecarProcess, *how: str) -> dict[str, Any]:
    """Have the load generator put load on the sidecar; return its report."""
    secret = str(sidecar.folder / "dispatch" / "boot-secret")
    where = ["--target", sidecar.dispatch_target, "--boot-secret-file", secret, "--principals", "1000"]
    what = [
        "--duration",
        f"{LASTS}s",
        "--warm-up",
        "1s",
        "--grace",
        "0s",
        "--deadline",
        PATIENCE,
        "--tools",
        "ask_shop",
    ]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "subagents_loadgen", *where, *what, *how, "--json", "--quiet"),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    said, _ = await process.communicate()
    report: dict[str, Any] = json.loads(said)
    return report


@requirement("SX-38")
@pytest.mark.parametrize("times", RATES)
@pytest.mark.seconds(120 + 4 * LASTS)
async def test_beside_more_load_than_can_be_carried_an_operator_gets_through(times: int) -> None:
    """Health and rollout answer, the kill holds, no answer breaks the contract; the share of the peak is printed."""
    beside, over = Beside(), asyncio.Event()
    async with overloaded() as (sidecar, operator):
        peak = max(1.0, (await loaded(sidecar, "--in-flight", "64"))["operations"]["per_second_without_error"])
        async with asyncio.TaskGroup() as group:
            group.create_task(beside.work(sidecar, operator, over))
            report = await loaded(sidecar, "--rate", str(round(times * peak)), "--max-in-flight", "4000")
            over.set()
    done = report["operations"]["per_second_without_error"]
    assert report["violations"] == {}
    assert beside.kill
    figures = {
        "turns/s at the peak": round(peak),
        "turns/s completed": round(done),
        "% of the peak": round(100 * done / peak),
        "ms for the kill": round(1000 * beside.kill),
        "ms for health at most": round(1000 * max(beside.health)),
        "ms for a look at the rollout at most": round(1000 * max(beside.reads)),
        "of": len(beside.health),
    }
    tell(f"{times} times the load", 0, figures)
    tell("of it failed", 0, report["errors"])
