"""What a number of sidecars, or of stores without sidecars, put through one PostgreSQL."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from scripts.benchmark.clients import DISPATCHES_PER_TURN, Job, SidecarClient
from scripts.benchmark.definitions import INSTANT
from scripts.benchmark.growth.copies import Copies, Copy
from scripts.benchmark.growth.records import opened_store
from scripts.benchmark.load import p99_of
from scripts.benchmark.postgres import Postgres
from scripts.benchmark.processes import Server, cpu_seconds, running
from scripts.benchmark.scale.pooler import pooler
from scripts.benchmark.scale.watching import Watched, watched
from scripts.benchmark.sidecar_server import secret_file
from sidecar.operations.record.ports import Store

SIDECARS: Final = "sidecars"
STORES: Final = "stores"
IN_FLIGHT: Final = 4
"""Dispatches of each sidecar, or turns of each store, at a time."""
WARM_UP: Final = 8
"""Dispatches of each before anything is measured."""

Asked = TypeVar("Asked")
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Carried:
    """What one load came to.

    Attributes:
        what: `sidecars` or `stores`.
        pooled: through PgBouncer.
        many: so many of them.
        dispatches: of one child, kept twice each: when opened and when settled; every fourth with the end of its turn.
        seconds: that they took.
        p50, p99: latency of a dispatch; of a store's, of all that it appends for a turn; in seconds.
        cpu: seconds of CPU time of sidecars, load generator and pooler.
    """

    what: str
    pooled: bool
    many: int
    dispatches: int
    seconds: float
    p50: float
    p99: float
    cpu: Mapping[str, float]
    server: Watched

    @property
    def rate(self) -> float:
        """Return dispatches a second."""
        return self.dispatches / self.seconds

    def cpu_of(self, part: str) -> float:
        """Return the CPU time of a dispatch in one part, in seconds."""
        used = self.server.cpu if part == "PostgreSQL" else self.cpu[part]
        return used / self.dispatches


@dataclass(frozen=True, slots=True)
class Way:
    """How a new database is reached.

    Attributes:
        pooler_pid: None: directly.
    """

    server: Postgres
    database: str
    dsn: str
    pooler_pid: int | None

    def pooler_cpu(self) -> float:
        """Return the CPU time of the pooler so far, in seconds."""
        return 0.0 if self.pooler_pid is None else cpu_seconds(self.pooler_pid)


@asynccontextmanager
async def way(server: Postgres, *, pooled: bool) -> AsyncIterator[Way]:
    """Make an empty database and start a pooler if there shall be one. Raises `ServerLost`."""
    database = f"scale_{next(_numbers)}"
    direct = await server.database(database)
    if not pooled:
        yield Way(server, database, direct, None)
        return
    async with pooler(server) as between:
        yield Way(server, database, between.dsn(database), between.pid)


async def by_sidecars(to: Way, folder: Path, many: int, dispatches: int) -> Carried:
    """Have sidecars over one database dispatch one child so often in all. Raises `ServerLost`, `WrongAnswer`."""
    async with AsyncExitStack() as running_ones:
        ones = [await running_ones.enter_async_context(_sidecar(to, folder, number)) for number in range(many)]
        clients = [client for _, client in ones]
        await asyncio.gather(*(_dispatched(client, WARM_UP, []) for client in clients))
        each = max(IN_FLIGHT, dispatches // many)
        latencies: list[float] = []
        prepared = [await client.prepared(INSTANT, 1, each, least=IN_FLIGHT) for client in clients]

        async def load(client: SidecarClient, jobs: Sequence[Job]) -> None:
            waiting = iter(jobs)
            await asyncio.gather(*(_one_after_the_other(client.dispatch, waiting, latencies) for _ in range(IN_FLIGHT)))
            await client.end_all()

        def cpu() -> Mapping[str, float]:
            used = sum(server.cpu_seconds() for server, _ in ones)
            return {"sidecars": used, "load": time.process_time(), "pooler": to.pooler_cpu()}

        loads = [load(client, jobs) for client, jobs in zip(clients, prepared, strict=True)]
        return await _measured(SIDECARS, to, many, latencies, loads, cpu, per_latency=1)


async def by_stores(to: Way, folder: Path, many: int, dispatches: int, copies: Copies) -> Carried:
    """Have stores without sidecars append turns of four dispatches, with all that a sidecar would commit by itself."""
    turns = max(IN_FLIGHT, dispatches // DISPATCHES_PER_TURN // many)
    made = [[copies.next() for _ in range(turns)] for _ in range(many)]
    async with AsyncExitStack() as opened:
        stores = [await opened.enter_async_context(opened_store(folder, to.dsn)) for _ in range(many)]
        latencies: list[float] = []

        async def load(store: Store, own: Sequence[Copy]) -> None:
            waiting = iter(own)

            async def keep(copy: Copy) -> None:
                for group in copy.groups:
                    await store.append(group)

            await asyncio.gather(*(_one_after_the_other(keep, waiting, latencies) for _ in range(IN_FLIGHT)))

        def cpu() -> Mapping[str, float]:
            return {"sidecars": 0.0, "load": time.process_time(), "pooler": to.pooler_cpu()}

        loads = [load(store, own) for store, own in zip(stores, made, strict=True)]
        return await _measured(STORES, to, many, latencies, loads, cpu, per_latency=DISPATCHES_PER_TURN)


async def _measured(
    what: str,
    to: Way,
    many: int,
    latencies: list[float],
    loads: Sequence[Awaitable[None]],
    cpu: Callable[[], Mapping[str, float]],
    *,
    per_latency: int,
) -> Carried:
    async with watched(to.server, to.database) as server:
        before, began = cpu(), time.perf_counter()
        await asyncio.gather(*loads)
        seconds, after = time.perf_counter() - began, cpu()
    used = {part: after[part] - before[part] for part in after}
    count_of_all = len(latencies) * per_latency
    pooled = to.pooler_pid is not None
    return Carried(what, pooled, many, count_of_all, seconds, median(latencies), p99_of(latencies), used, server)


@asynccontextmanager
async def _sidecar(to: Way, folder: Path, number: int) -> AsyncIterator[tuple[Server, SidecarClient]]:
    place = folder / f"{to.database}-{number}"
    place.mkdir(mode=0o700)
    socket = place / "sidecar.sock"
    said = ["--definitions", str(folder / "definitions"), "--record", to.dsn]
    async with running("sidecar_server", socket, said) as server:
        yield server, SidecarClient(server.channel, secret_file(socket).read_text(encoding="utf-8").strip())


async def _dispatched(client: SidecarClient, dispatches: int, latencies: list[float]) -> None:
    waiting = iter(await client.prepared(INSTANT, 1, dispatches))
    await _one_after_the_other(client.dispatch, waiting, latencies)
    await client.end_all()


async def _one_after_the_other(
    call: Callable[[Asked], Awaitable[object]], waiting: Iterator[Asked], latencies: list[float]
) -> None:
    for request in waiting:
        began = time.perf_counter()
        await call(request)
        latencies.append(time.perf_counter() - began)
