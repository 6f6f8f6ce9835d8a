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
from scripts.benchmark.cohort_checks import USUAL as USUAL_CHECKS
from scripts.benchmark.cohort_checks import cohort_checks
from scripts.benchmark.collector import collector
from scripts.benchmark.definitions import INSTANT, write_definitions
from scripts.benchmark.load import Sample, measure, measure_open
from scripts.benchmark.operating import OperatorKey, operators_socket, ramped
from scripts.benchmark.peers import AGENTS, TOOL_NODE, Peer, langgraph
from scripts.benchmark.postgres import postgres
from scripts.benchmark.processes import running
from scripts.benchmark.replicas import USUAL as USUAL_ACTIONS
from scripts.benchmark.replicas import replicas
from scripts.benchmark.sidecar_server import SQLITE as SQLITE_RECORD
from scripts.benchmark.sidecar_server import secret_file
from scripts.benchmark.starts import USUAL as USUAL_STARTS
from scripts.benchmark.starts import starts
from scripts.benchmark.targets import (
    BARE,
    BARE_START,
    COHORT,
    IN_POSTGRES,
    IN_SQLITE,
    MANY,
    OPEN,
    ROWS,
    SLEEPING_TURNS,
    START,
    TAKEN_AWAY,
    TWIN,
    WITH_ROLLOUTS,
    Cell,
    Measured,
    Servers,
    cells,
)

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
        rows: of the table in DESIGN section 14; what none of them needs is not started.
        profile: where the sidecar writes its profile; None: it takes none, and only then its numbers mean anything.
    """

    rounds: int
    share: float = 1.0
    server_cpu: int | None = None
    client_cpu: int | None = None
    twin_delay: float = 0.0
    profile: Path | None = None
    databases: bool = True
    rows: frozenset[int] = ROWS

    def asks(self, rows: frozenset[int]) -> bool:
        """Say whether one of these rows is to be measured."""
        return bool(self.rows & rows)

    @property
    def on_core(self) -> Sequence[str]:
        """What keeps a server on its core."""
        return () if self.server_cpu is None else ("--cpu", str(self.server_cpu))

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
    async with _servers(plan) as servers, _others(plan) as others:
        slots = [*(_slot(cell, servers, samples) for cell in cells(servers, plan.rows)), *others]
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


@asynccontextmanager
async def _others(plan: Plan) -> AsyncIterator[Sequence[Slot]]:
    """Start what is no server of one request: LangGraph, cohort checks, starts, replicas."""
    found: list[Slot] = []
    async with AsyncExitStack() as started:
        if plan.asks(frozenset({4})):
            found += _peer_slots(await started.enter_async_context(langgraph(plan.server_cpu)))
        if plan.asks(frozenset({8})):
            checks = await started.enter_async_context(cohort_checks(plan.server_cpu))
            found.append(Slot(COHORT, 1, USUAL_CHECKS, checks.measure))
        if plan.asks(frozenset({11})):
            folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
            write_definitions(folder / "definitions")
            named = zip((BARE_START, START), starts(folder, folder / "definitions", plan.server_cpu), strict=True)
            found += [Slot(name, 1, USUAL_STARTS, each.measure) for name, each in named]
        if plan.asks(frozenset({13})) and plan.databases:
            folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
            actions = plan.rounds * plan.requests(USUAL_ACTIONS, 1) + 1  # one more to warm up
            taking = await started.enter_async_context(replicas(folder, actions, plan.on_core))
            found += [] if taking is None else [Slot(TAKEN_AWAY, 1, USUAL_ACTIONS, taking.measure)]
        yield found


def _peer_slots(peer: Peer | None) -> Sequence[Slot]:
    if peer is None:
        return ()
    return tuple(Slot(target, 1, SLEEPING_TURNS, partial(peer.measure, target)) for target in (TOOL_NODE, AGENTS))


@asynccontextmanager
async def _servers(plan: Plan) -> AsyncIterator[Servers]:
    """Start the sidecars, take down what one answers, and start two bare servers that answer the same."""
    profiled = [] if plan.profile is None else ["--profile", str(plan.profile.absolute())]
    async with AsyncExitStack() as started:
        folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
        write_definitions(folder / "definitions")

        async def sidecar(name: str, *arguments: str) -> Measured:
            return await started.enter_async_context(_sidecar(folder, name, [*plan.on_core, *arguments]))

        first = await sidecar("sidecar", *profiled)
        unobserved = observed = policed = sqlite = in_postgres = None
        if plan.asks(frozenset({7})):
            endpoint = await started.enter_async_context(collector())
            unobserved, observed = await sidecar("unobserved"), await sidecar("observed", "--otlp", endpoint)
        if plan.asks(WITH_ROLLOUTS):
            key = OperatorKey(folder / "operator.pub")
            policed = await sidecar("policed", "--operator-key", str(key.file), "--policies")
            await ramped(operators_socket(folder / "policed" / "any"), key)
        if plan.databases and plan.asks(IN_SQLITE):
            sqlite = await sidecar("sqlite", "--record", SQLITE_RECORD)
        if plan.databases and plan.asks(IN_POSTGRES):
            dsn = await started.enter_async_context(postgres())
            in_postgres = None if dsn is None else await sidecar("postgres", "--record", dsn)
        await _write_answers(folder, first.client, (policed or first).client)
        answers = ["--answers", str(folder), *plan.on_core]
        bare = running("bare_server", folder / "bare.sock", answers)
        twin = running("bare_server", folder / "twin.sock", [*answers, "--delay", str(plan.twin_delay)])
        yield Servers(
            sidecar=first,
            unobserved=unobserved,
            observed=observed,
            policed=policed,
            sqlite=sqlite,
            postgres=in_postgres,
            bare=await started.enter_async_context(bare),
            twin=await started.enter_async_context(twin),
        )


@asynccontextmanager
async def _sidecar(folder: Path, name: str, arguments: Sequence[str]) -> AsyncIterator[Measured]:
    """Start a sidecar in a private folder of its own."""
    (folder / name).mkdir(mode=0o700)
    socket = folder / name / "sidecar.sock"
    async with running("sidecar_server", socket, ["--definitions", str(folder / "definitions"), *arguments]) as server:
        yield Measured(server, SidecarClient(server.channel, secret_file(socket).read_text(encoding="utf-8").strip()))


async def _write_answers(folder: Path, dispatching: SidecarClient, binding: SidecarClient) -> None:
    (job,) = await dispatching.prepared(INSTANT, 1, 1)
    whole, bound = await dispatching.frames(job), await binding.bound(turn_request(INSTANT))
    await dispatching.end_all()
    await binding.end_all()
    write_answers(folder, whole, bound)
