"""The durable peers: what they are called, what each needs, and who starts them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.durable.own_network import possible
from scripts.benchmark.durable.restate_server import program
from scripts.benchmark.load import Sample
from scripts.benchmark.plan import Plan
from scripts.benchmark.postgres import NOT_INSTALLED as NO_POSTGRES
from scripts.benchmark.postgres import Postgres, binaries
from scripts.benchmark.processes import Process, ServerLost, started

DBOS_SQLITE: Final = f"DBOS, {MOST_CHILDREN} steps of 20 ms, SQLite"
DBOS_POSTGRES: Final = f"DBOS, {MOST_CHILDREN} steps of 20 ms, PostgreSQL"
RESTATE_STEPS: Final = f"Restate, {MOST_CHILDREN} steps of 20 ms"
RESTATE_CALLS: Final = f"Restate, {MOST_CHILDREN} service calls of 20 ms"

NO_DBOS: Final = "DBOS not installed"
NO_RESTATE: Final = "Restate not installed"
NO_NETWORK: Final = "no network namespace for Restate"
_DBOS: Final = ("dbos",)
_RESTATE: Final = ("restate", "hypercorn")
NOT_MEASURED: Final = "not measured"

Measure = Callable[[int], Awaitable[Sample]]


class Peer:
    """A process that runs turns when it is asked to, one after the other."""

    def __init__(self, process: Process, module: str) -> None:
        """Take a process that is ready."""
        self._process = process
        self._module = module

    async def measure(self, target: str, turns: int) -> Sample:
        """Have turns run.

        Raises:
            ServerLost: it ended, perhaps over a wrong answer; what it said is on standard error.
        """
        line = await self._process.ask(json.dumps({"target": target, "turns": turns}))
        if not line:
            raise ServerLost(f"{self._module} ended while it measured {target}")
        told = json.loads(line)
        latencies: list[float] = told["latencies"]
        return Sample(turns / sum(latencies), median(latencies), told["cpu"] / turns, 1, 1.0)


@dataclass(frozen=True, slots=True)
class Here:
    """What there is on this machine.

    Attributes:
        dbos, restate: packages of Python, with what they need.
        server: Restate's.
        network: whether a process may have a network of its own.
        postgres: a server and a client.
    """

    dbos: bool
    restate: bool
    server: bool
    network: bool
    postgres: bool


@cache
def here() -> Here:
    """Look what there is."""
    return Here(
        dbos=_importable(_DBOS),
        restate=_importable(_RESTATE),
        server=program() is not None,
        network=possible(),
        postgres=binaries() is not None,
    )


def missing(on: Here) -> Mapping[str, str]:
    """Return, for each durable peer, why it cannot be measured; `not measured` if it could."""
    dbos = "" if on.dbos else NO_DBOS
    restate = NO_RESTATE if not (on.restate and on.server) else "" if on.network else NO_NETWORK
    return {
        DBOS_SQLITE: dbos or NOT_MEASURED,
        DBOS_POSTGRES: dbos or ("" if on.postgres else NO_POSTGRES) or NOT_MEASURED,
        RESTATE_STEPS: restate or NOT_MEASURED,
        RESTATE_CALLS: restate or NOT_MEASURED,
    }


@asynccontextmanager
async def durable_peers(plan: Plan, databases: Postgres | None) -> AsyncIterator[Mapping[str, Measure]]:
    """Start every durable peer that is installed, each in processes of its own; yields what measures each.

    Raises:
        ServerLost: one did not start.
    """
    measured: dict[str, Measure] = {}
    async with AsyncExitStack() as running:

        async def start(module: str, targets: Sequence[str], arguments: Sequence[str]) -> None:
            peer = Peer(await running.enter_async_context(started(f"durable.{module}", arguments)), module)
            measured.update({target: partial(peer.measure, target) for target in targets})

        can = {target for target, why in missing(here()).items() if why == NOT_MEASURED and plan.databases}
        folder = Path(running.enter_context(TemporaryDirectory(prefix="bench-")))
        if DBOS_SQLITE in can:
            kept = ["--database", f"sqlite:///{folder / 'dbos.sqlite'}", "--target", DBOS_SQLITE]
            await start("dbos_turns", [DBOS_SQLITE], [*kept, *plan.on_core])
        if DBOS_POSTGRES in can and databases is not None:
            kept = ["--database", await databases.database("dbos"), "--target", DBOS_POSTGRES]
            await start("dbos_turns", [DBOS_POSTGRES], [*kept, *plan.on_core])
        if RESTATE_STEPS in can:
            await start("restate_turns", [RESTATE_STEPS, RESTATE_CALLS], _on_both_cores(plan))
        yield measured


def _on_both_cores(plan: Plan) -> Sequence[str]:
    """Return what gives the server the servers' core, and its services and their caller the other one."""
    if plan.server_cpu is None or plan.client_cpu is None:
        return ()
    return ("--cpu", str(plan.client_cpu), "--server-cpu", str(plan.server_cpu))


def _importable(names: Sequence[str]) -> bool:
    return all(find_spec(name) is not None for name in names)
