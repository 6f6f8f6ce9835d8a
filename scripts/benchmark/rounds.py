"""The measured targets, one after the other, round after round, and what the numbers come to."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from scripts.benchmark.bare_server import write_answers
from scripts.benchmark.clients import BareClient, SidecarClient, turn_request
from scripts.benchmark.collector import collector
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN, SLEEPING, write_definitions
from scripts.benchmark.load import Call, Sample, measure
from scripts.benchmark.peers import AGENTS, TOOL_NODE, Peer, langgraph
from scripts.benchmark.processes import Server, running
from scripts.benchmark.sidecar_server import secret_file

MANY: Final = 16
"""Requests in flight where the rate is what counts."""
A_A_TOLERANCE: Final = 0.10
"""Two runs of the same server may differ by this much; if they differ by more, nothing in the run means anything."""

BARE: Final = "bare stream"
TWIN: Final = "bare stream again"
ECHO: Final = "bare unary echo"
SIDECAR: Final = "sidecar, 1 child"
UNOBSERVED: Final = "sidecar, 1 child, OTLP off"
OBSERVED: Final = "sidecar, 1 child, OTLP on"
FAN_OUT: Final = f"sidecar, {MOST_CHILDREN} children"
ASLEEP: Final = f"sidecar, {MOST_CHILDREN} children of 20 ms"
BIND: Final = "sidecar, BindTurn"
BARE_BIND: Final = "bare BindTurn echo"

SLEEPING_TURNS: Final = 32
"""Turns in a round where eight sub-agents sleep."""

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
        profile: where the sidecar writes its profile; None: it takes none, and only then its numbers mean anything.
    """

    rounds: int
    share: float = 1.0
    server_cpu: int | None = None
    client_cpu: int | None = None
    twin_delay: float = 0.0
    profile: Path | None = None

    def requests(self, usual: int, in_flight: int) -> int:
        """Return how many requests make a turn."""
        return max(in_flight, round(usual * self.share))


@dataclass(frozen=True, slots=True)
class Cell:
    """One target with a number of requests in flight.

    Attributes:
        prepare: makes that many requests; not measured.
        usual: requests in a turn.
    """

    target: str
    in_flight: int
    server: Server
    call: Call
    prepare: Callable[[int], Awaitable[Sequence[Any]]]
    usual: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A sidecar and who calls it."""

    server: Server
    client: SidecarClient = field(compare=False)


@dataclass(frozen=True, slots=True)
class Servers:
    """Everything that listens.

    Attributes:
        unobserved, observed: sidecars that serve nothing else, so that they differ only in whether they send telemetry;
            what was measured before in the first sidecar weighs on neither.
    """

    sidecar: Measured
    unobserved: Measured
    observed: Measured
    bare: Server
    twin: Server

    async def end_all(self) -> None:
        """End every turn that was bound."""
        for each in (self.sidecar, self.unobserved, self.observed):
            await each.client.end_all()


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
        slots = [*(_slot(cell, servers) for cell in _cells(servers)), *_peer_slots(peer)]
        for slot in slots:
            await slot.take(slot.in_flight)  # connections, caches and code are warm after this
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


def _slot(cell: Cell, servers: Servers) -> Slot:
    async def take(count: int) -> Sample:
        requests = await cell.prepare(count)
        sample = await measure(cell.server, cell.call, requests, cell.in_flight)
        await servers.end_all()
        return sample

    return Slot(cell.target, cell.in_flight, cell.usual, take)


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
        ):
            await _write_answers(folder, sidecar.client)
            answers = ["--answers", str(folder), *on_core]
            slower = ["--delay", str(plan.twin_delay)]
            async with (
                running("bare_server", folder / "bare.sock", answers) as bare,
                running("bare_server", folder / "twin.sock", [*answers, *slower]) as twin,
            ):
                yield Servers(sidecar, unobserved, observed, bare, twin)


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


def _cells(servers: Servers) -> Sequence[Cell]:
    """Return what has its turn in each round, in this order."""
    sidecar, client = servers.sidecar.server, servers.sidecar.client
    bare, twin = BareClient(servers.bare.channel), BareClient(servers.twin.channel)

    async def one(count: int) -> Sequence[Any]:
        return await client.prepared(INSTANT, 1, count)

    async def eight(count: int) -> Sequence[Any]:
        return await client.prepared(INSTANT, MOST_CHILDREN, count)

    async def asleep(count: int) -> Sequence[Any]:
        return await client.prepared(SLEEPING, MOST_CHILDREN, count)

    async def turns(count: int) -> Sequence[Any]:
        return [turn_request(INSTANT) for _ in range(count)]

    return (
        Cell(BARE, MANY, servers.bare, bare.stream, one, 480),
        Cell(SIDECAR, MANY, sidecar, client.dispatch, one, 480),
        Cell(TWIN, MANY, servers.twin, twin.stream, one, 480),
        _telemetry(UNOBSERVED, servers.unobserved),
        _telemetry(OBSERVED, servers.observed),
        Cell(BARE, 1, servers.bare, bare.stream, one, 200),
        Cell(SIDECAR, 1, sidecar, client.dispatch, one, 200),
        Cell(TWIN, 1, servers.twin, twin.stream, one, 200),
        Cell(ECHO, MANY, servers.bare, bare.echo, one, 800),
        Cell(FAN_OUT, MANY, sidecar, client.dispatch, eight, 240),
        Cell(ASLEEP, 1, sidecar, client.dispatch, asleep, SLEEPING_TURNS),
        Cell(BARE_BIND, MANY, servers.bare, bare.bind, turns, 480),
        Cell(BIND, MANY, sidecar, client.bind, turns, 480),
    )


def _telemetry(target: str, measured: Measured) -> Cell:
    async def one(count: int) -> Sequence[Any]:
        return await measured.client.prepared(INSTANT, 1, count)

    return Cell(target, MANY, measured.server, measured.client.dispatch, one, 480)
