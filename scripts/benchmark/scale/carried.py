"""What a number of sidecars, or of stores without sidecars, put through one PostgreSQL."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import grpc

from scripts.benchmark.clients import DISPATCHES_PER_TURN, Job, SidecarClient, WrongAnswer
from scripts.benchmark.definitions import INSTANT
from scripts.benchmark.growth.copies import Copies, Copy
from scripts.benchmark.growth.records import opened_store
from scripts.benchmark.load import p99_of
from scripts.benchmark.postgres import Postgres
from scripts.benchmark.processes import Server, cpu_seconds, running
from scripts.benchmark.scale.pooler import pooler
from scripts.benchmark.scale.watching import Watched, Watching, watching
from scripts.benchmark.sidecar_server import secret_file
from sidecar.operations.record.ports import Store

SIDECARS: Final = "sidecars"
STORES: Final = "stores"
TURN_LIFETIME: Final = "10m"
"""All turns are bound before the load begins, and ended after it: on a busy machine that takes longer than 20 s."""
PAUSE_SECONDS: Final = 0.1
"""After a refusal."""
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
        refused: dispatches that failed because the database did not answer in time; in no other figure.
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
    refused: int = 0

    @property
    def rate(self) -> float:
        """Return dispatches a second."""
        return self.dispatches / self.seconds

    def cpu_of(self, part: str) -> float:
        """Return the CPU time of a dispatch in one part, in seconds."""
        used = self.server.cpu if part == "PostgreSQL" else self.cpu[part]
        return used / self.dispatches


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked.

    Attributes:
        many: sidecars, or stores.
        dispatches: by all of them.
        in_flight: dispatches of each sidecar, or turns of each store, at a time.
    """

    many: int
    dispatches: int
    in_flight: int


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


async def carried(server: Postgres, folder: Path, load: Load, *, pooled: bool, copies: Copies | None = None) -> Carried:
    """Put a load through an empty database, and return what it came to.

    Args:
        server: of the database.
        folder: with definitions, and place for sockets.
        load: how much.
        pooled: through a pooler.
        copies: of turns, for stores; None: sidecars make the load.

    Raises:
        ServerLost, WrongAnswer: it cannot be measured.
    """
    database = f"scale_{next(_numbers)}"
    direct = await server.database(database)
    async with AsyncExitStack() as opened:
        between = await opened.enter_async_context(pooler(server.folder)) if pooled else None
        to = Way(server, database, between.dsn(database) if between else direct, between.pid if between else None)
        watch = await opened.enter_async_context(watching(server, database))
        if copies is None:
            found = await _by_sidecars(to, folder, load, watch)
        else:
            found = await _by_stores(to, folder, load, copies, watch)
        if between is not None:
            await between.end()
        await watch.count()
        return found


async def _by_sidecars(to: Way, folder: Path, load: Load, watch: Watching) -> Carried:
    """Have sidecars over one database dispatch one child so often in all. Raises `ServerLost`, `WrongAnswer`."""
    async with AsyncExitStack() as started:
        ones = [await started.enter_async_context(_sidecar(to, folder, number)) for number in range(load.many)]
        clients = [client for _, client in ones]
        each = max(load.in_flight, load.dispatches // load.many)
        prepared = [await client.prepared(INSTANT, 1, each, least=load.in_flight) for client in clients]
        latencies: list[float] = []
        refused: list[str] = []

        async def dispatch(client: SidecarClient, jobs: Sequence[Job]) -> None:
            await _at_a_time(load.in_flight, client.dispatch, jobs, latencies, refused)
            await client.end_all()

        def cpu() -> Mapping[str, float]:
            used = sum(server.cpu_seconds() for server, _ in ones)
            return {"sidecars": used, "load": time.process_time(), "pooler": to.pooler_cpu()}

        loads = [dispatch(client, jobs) for client, jobs in zip(clients, prepared, strict=True)]
        run = await _run(watch, loads, cpu)
    return _carried(SIDECARS, to, load.many, run, _Taken(latencies, len(refused)))


async def _by_stores(to: Way, folder: Path, load: Load, copies: Copies, watch: Watching) -> Carried:
    """Have stores without sidecars append turns of four dispatches, with all that a sidecar would commit by itself."""
    turns = max(load.in_flight, load.dispatches // DISPATCHES_PER_TURN // load.many)
    made = [[copies.next() for _ in range(turns)] for _ in range(load.many)]
    async with AsyncExitStack() as opened:
        records = [await opened.enter_async_context(opened_store(folder, to.dsn)) for _ in range(load.many)]
        latencies: list[float] = []

        async def append(store: Store, own: Sequence[Copy]) -> None:
            async def whole(copy: Copy) -> None:
                for draft in copy.by(store.instance):
                    await store.append([draft])

            await _at_a_time(load.in_flight, whole, own, latencies, [])

        def cpu() -> Mapping[str, float]:
            return {"sidecars": 0.0, "load": time.process_time(), "pooler": to.pooler_cpu()}

        run = await _run(watch, [append(record.store, own) for record, own in zip(records, made, strict=True)], cpu)
    return _carried(STORES, to, load.many, run, _Taken(latencies, 0, DISPATCHES_PER_TURN))


@dataclass(frozen=True, slots=True)
class _Run:
    seconds: float
    cpu: Mapping[str, float]
    server: Watched


async def _run(watch: Watching, loads: Sequence[Awaitable[None]], cpu: Callable[[], Mapping[str, float]]) -> _Run:
    async with watch.load():
        before, began = cpu(), time.perf_counter()
        await asyncio.gather(*loads)
        seconds, after = time.perf_counter() - began, cpu()
    return _Run(seconds, {part: after[part] - before[part] for part in after}, watch.result)


@dataclass(frozen=True, slots=True)
class _Taken:
    """Latencies, each of so many dispatches."""

    latencies: Sequence[float]
    refused: int
    each: int = 1


def _carried(what: str, to: Way, many: int, run: _Run, taken: _Taken) -> Carried:
    dispatches, pooled = len(taken.latencies) * taken.each, to.pooler_pid is not None
    p50, p99 = median(taken.latencies), p99_of(taken.latencies)
    return Carried(what, pooled, many, dispatches, run.seconds, p50, p99, run.cpu, run.server, taken.refused)


@asynccontextmanager
async def _sidecar(to: Way, folder: Path, number: int) -> AsyncIterator[tuple[Server, SidecarClient]]:
    place = folder / f"{to.database}-{number}"
    place.mkdir(mode=0o700)
    socket = place / "sidecar.sock"
    said = ["--definitions", str(folder / "definitions"), "--record", to.dsn, "--turn-lifetime", TURN_LIFETIME]
    async with running("sidecar_server", socket, said) as server:
        client = SidecarClient(server.channel, secret_file(socket).read_text(encoding="utf-8").strip())
        await _at_a_time(1, client.dispatch, await client.prepared(INSTANT, 1, WARM_UP), [], [])
        await client.end_all()
        yield server, client


async def _at_a_time(
    many: int,
    call: Callable[[Asked], Awaitable[object]],
    asked: Sequence[Asked],
    latencies: list[float],
    refused: list[str],
) -> None:
    """Call with everything that is asked, so many at a time; note how long each call took, or that it was refused."""
    waiting = iter(asked)

    async def one_after_the_other() -> None:
        for each in waiting:
            began = time.perf_counter()
            try:
                await call(each)
            except (WrongAnswer, grpc.aio.AioRpcError) as problem:
                refused.append(str(problem))
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                latencies.append(time.perf_counter() - began)

    await asyncio.gather(*(one_after_the_other() for _ in range(many)))
