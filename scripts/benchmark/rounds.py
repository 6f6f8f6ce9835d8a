"""The measured targets, one after the other, round after round, and what the numbers come to."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts.benchmark.bare_server import write_answers
from scripts.benchmark.clients import SidecarClient, turn_request
from scripts.benchmark.collector import collector
from scripts.benchmark.definitions import INSTANT, write_definitions
from scripts.benchmark.load import Sample, measure, measure_open
from scripts.benchmark.peers import AGENTS, TOOL_NODE, Peer, langgraph
from scripts.benchmark.postgres import postgres
from scripts.benchmark.processes import running
from scripts.benchmark.sidecar_server import SQLITE as SQLITE_RECORD
from scripts.benchmark.sidecar_server import secret_file
from scripts.benchmark.targets import BARE, MANY, OPEN, SLEEPING_TURNS, TWIN, Cell, Measured, Servers, cells

A_A_TOLERANCE: Final = 0.10
"""Two runs of the same server may differ by this much; if they differ by more, nothing in the run means anything."""

Series = Mapping[tuple[str, int], Sequence[Sample]]
"""The samples of each target and number in flight, a sample for each round."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: how often each target has its turn.
        share: of the usual number of requests in a turn; at least one request for each in flight is made.
        server_cpu, client_cpu: cores to stay on; None: wherever the system likes.
        twin_delay: seconds by which the second bare server is slower; 0 but in tests.
        databases: whether the record is also measured in SQLite and PostgreSQL.
        profile: where the sidecar writes its profile; None: it takes none, and only then its numbers mean anything.
    """

    rounds: int
    share: float = 1.0
    server_cpu: int | None = None
    client_cpu: int | None = None
    twin_delay: float = 0.0
    profile: Path | None = None
    databases: bool = True

    def requests(self, usual: int, in_flight: int) -> int:
        """Return how many requests make a turn."""
        return max(in_flight, round(usual * self.share))


@dataclass(frozen=True, slots=True)
class Slot:
    """What a target does when it has its turn in a round.

    Attributes:
        usual: requests in a turn.
        take: makes so many requests and measures them.
    """

    target: str
    in_flight: int
    usual: int
    take: Callable[[int], Awaitable[Sample]]


async def run(plan: Plan) -> Series:
    """Measure every target in every round; LangGraph's only if it is installed. Raises `ServerLost`, `WrongAnswer`."""
    samples: dict[tuple[str, int], list[Sample]] = {}
    async with _servers(plan) as servers, langgraph(plan.server_cpu) as peer:
        slots = [*(_slot(cell, servers, samples) for cell in cells(servers)), *_peer_slots(peer)]
        for slot in slots:
            await slot.take(max(slot.in_flight, 1))  # connections, caches and code are warm after this
        for _ in range(plan.rounds):
            for slot in slots:
                sample = await slot.take(plan.requests(slot.usual, slot.in_flight))
                samples.setdefault((slot.target, slot.in_flight), []).append(sample)
    return samples


def twins_agree(series: Series) -> tuple[bool, Mapping[int, float]]:
    """Say whether the two bare servers came out alike, and how their rates compare, by number in flight."""
    ratios = {
        in_flight: median(_rates(series, TWIN, in_flight)) / median(_rates(series, BARE, in_flight))
        for in_flight in (1, MANY)
    }
    return all(abs(ratio - 1) <= A_A_TOLERANCE for ratio in ratios.values()), ratios


def _rates(series: Series, target: str, in_flight: int) -> list[float]:
    return [sample.rate for sample in series[target, in_flight]]


def _slot(cell: Cell, servers: Servers, series: Series) -> Slot:
    async def take(count: int) -> Sample:
        requests = await cell.prepare(count)
        if cell.in_flight == OPEN:
            sample = await _half_as_much(cell, requests, series)
        else:
            sample = await measure(cell.server, cell.call, requests, cell.in_flight)
        await servers.end_all()
        return sample

    return Slot(cell.target, cell.in_flight, cell.usual, take)


async def _half_as_much(cell: Cell, requests: Sequence[Any], series: Series) -> Sample:
    """Measure in an open loop, at half of the rate that the target came to so far; all at once if that is not known."""
    if (cell.target, MANY) not in series:
        return await measure(cell.server, cell.call, requests, len(requests))
    rate = median(_rates(series, cell.target, MANY)) / 2
    return await measure_open(cell.server, cell.call, requests, rate, len(series.get((cell.target, OPEN), ())))


def _peer_slots(peer: Peer | None) -> Sequence[Slot]:
    if peer is None:
        return ()
    return tuple(Slot(target, 1, SLEEPING_TURNS, partial(peer.measure, target)) for target in (TOOL_NODE, AGENTS))


@asynccontextmanager
async def _servers(plan: Plan) -> AsyncIterator[Servers]:
    """Start the sidecars, take down what one answers, and start two bare servers that answer the same."""
    on_core = [] if plan.server_cpu is None else ["--cpu", str(plan.server_cpu)]
    profiled = [] if plan.profile is None else ["--profile", str(plan.profile.absolute())]
    with TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        write_definitions(folder / "definitions")
        async with (
            _sidecar(folder, "sidecar", [*on_core, *profiled]) as sidecar,
            _sidecar(folder, "unobserved", on_core) as unobserved,
            collector() as endpoint,
            _sidecar(folder, "observed", [*on_core, "--otlp", endpoint]) as observed,
            _durable(folder, plan, on_core) as (sqlite, in_postgres),
        ):
            await _write_answers(folder, sidecar.client)
            answers = ["--answers", str(folder), *on_core]
            slower = ["--delay", str(plan.twin_delay)]
            async with (
                running("bare_server", folder / "bare.sock", answers) as bare,
                running("bare_server", folder / "twin.sock", [*answers, *slower]) as twin,
            ):
                yield Servers(sidecar, unobserved, observed, sqlite, in_postgres, bare, twin)


@asynccontextmanager
async def _durable(
    folder: Path, plan: Plan, on_core: Sequence[str]
) -> AsyncIterator[tuple[Measured | None, Measured | None]]:
    """Start a sidecar with SQLite, and one with PostgreSQL if that is installed."""
    if not plan.databases:
        yield None, None
        return
    async with AsyncExitStack() as started:
        sqlite = _sidecar(folder, "sqlite", [*on_core, "--record", SQLITE_RECORD])
        first, second = await started.enter_async_context(sqlite), None
        dsn = await started.enter_async_context(postgres())
        if dsn is not None:
            second = await started.enter_async_context(_sidecar(folder, "postgres", [*on_core, "--record", dsn]))
        yield first, second


@asynccontextmanager
async def _sidecar(folder: Path, name: str, arguments: Sequence[str]) -> AsyncIterator[Measured]:
    """Start a sidecar in a private folder of its own."""
    (folder / name).mkdir(mode=0o700)
    socket = folder / name / "sidecar.sock"
    async with running("sidecar_server", socket, ["--definitions", str(folder / "definitions"), *arguments]) as server:
        yield Measured(server, SidecarClient(server.channel, secret_file(socket).read_text(encoding="utf-8").strip()))


async def _write_answers(folder: Path, client: SidecarClient) -> None:
    (job,) = await client.prepared(INSTANT, 1, 1)
    whole, bound = await client.frames(job), await client.bound(turn_request(INSTANT))
    await client.end_all()
    write_answers(folder, whole, bound)
