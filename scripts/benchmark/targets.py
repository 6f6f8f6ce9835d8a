"""What has its turn in each round: who is asked, for what, and how much at a time."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.benchmark.clients import DISPATCHES_PER_TURN, BareClient, SidecarClient, turn_request
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN, SLEEPING
from scripts.benchmark.load import Call, Sample
from scripts.benchmark.processes import Server

MANY: Final = 16
"""Requests in flight where the rate is what counts."""
MORE: Final = 64
"""Requests in flight where databases are compared: enough to fill their groups."""
OPEN: Final = 0
"""An open loop: requests at random times, at half the rate that the target could answer."""

BARE: Final = "bare stream"
TWIN: Final = "bare stream again"
ECHO: Final = "bare unary echo"
SIDECAR: Final = "sidecar, 1 child"
UNOBSERVED: Final = "sidecar, 1 child, OTLP off"
OBSERVED: Final = "sidecar, 1 child, OTLP on"
FAN_OUT: Final = f"sidecar, {MOST_CHILDREN} children"
ASLEEP: Final = f"sidecar, {MOST_CHILDREN} children of 20 ms"
SQLITE: Final = "sidecar, 1 child, SQLite"
SQLITE_FAN_OUT: Final = f"sidecar, {MOST_CHILDREN} children, SQLite"
SQLITE_ASLEEP: Final = f"sidecar, {MOST_CHILDREN} children of 20 ms, SQLite"
POSTGRES: Final = "sidecar, 1 child, PostgreSQL"
POLICED: Final = "sidecar, 1 child, policies and sink"
BIND: Final = "sidecar, BindTurn"
BARE_BIND: Final = "bare BindTurn echo"
PLAIN_BIND: Final = "sidecar, BindTurn without ramps"
SQLITE_BIND: Final = "sidecar, BindTurn without ramps, SQLite"
END: Final = f"sidecar, EndTurn of {DISPATCHES_PER_TURN} dispatches"
SQLITE_END: Final = f"sidecar, EndTurn of {DISPATCHES_PER_TURN} dispatches, SQLite"
COHORT: Final = "cohort check of a sub-agent, in process"
TAKEN_AWAY: Final = "kill or rollback, two replicas"
BARE_START: Final = "start of a bare server"
START: Final = "start of the sidecar"
LANE: Final = "session lane, 1 child"
LANE_ASLEEP: Final = f"session lane, {MOST_CHILDREN} children of 20 ms"
LANE_BIND: Final = "session lane, BindTurn"
LANE_STALLED: Final = "session lane, 1 child, beside a client that stops reading"
IDLE_LANES: Final = "idle session lanes, each opened"

ROWS: Final = frozenset(range(16))
"""Of the table in DESIGN section 14, those that can be measured; 14 and 15 are ours: ends of turns, durable binds."""
ALWAYS: Final = ROWS
IN_SQLITE: Final = frozenset({1, 3, 4, 6, 9, 10, 14, 15})
IN_POSTGRES: Final = frozenset({1, 4, 10, 13})
LANE_ROWS: Final = frozenset({2, 5, 12})
IN_LANGGRAPH: Final = frozenset({2, 4, 5})
WITH_ROLLOUTS: Final = frozenset({7, 8})

SLEEPING_TURNS: Final = 32
"""Turns in a round where eight sub-agents sleep."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One target with a number of requests in flight.

    Attributes:
        prepare: makes that many requests; not measured.
        usual: requests in a turn.
        rows: of the table in DESIGN section 14, for which it is measured.
    """

    target: str
    in_flight: int
    server: Server
    call: Call
    prepare: Callable[[int], Awaitable[Sequence[Any]]]
    usual: int
    rows: frozenset[int]


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


@dataclass(frozen=True, slots=True)
class Measured:
    """A sidecar and who calls it.

    Attributes:
        folder: of its files.
    """

    server: Server
    client: SidecarClient = field(compare=False)
    folder: Path


@dataclass(frozen=True, slots=True)
class Bare:
    """The bare server, and the same program in another process."""

    server: Server
    twin: Server


@dataclass(frozen=True, slots=True)
class Sidecars:
    """Every sidecar of one revision.

    Attributes:
        unobserved, observed: sidecars that serve nothing else, so that they differ only in whether they send telemetry;
            what was measured before in the first sidecar weighs on neither. None: not measured, as all that follow.
        policed: a sidecar whose definitions are ramped, with lifecycle policies and an audit sink.
        sqlite, postgres: sidecars with their record in a database; None also where it is not installed.
    """

    sidecar: Measured
    unobserved: Measured | None
    observed: Measured | None
    policed: Measured | None
    sqlite: Measured | None
    postgres: Measured | None

    async def end_all(self) -> None:
        """End every turn that was bound."""
        for each in (self.sidecar, self.unobserved, self.observed, self.policed, self.sqlite, self.postgres):
            if each is not None:
                await each.client.end_all()


def at(target: str, revision: str) -> str:
    """Return what a target is called in another revision."""
    return f"{target}, at {revision}"


def cells(servers: Sidecars, beside: Bare, rows: frozenset[int] = ROWS) -> Sequence[Cell]:
    """Return what has its turn in each round, in this order; what no row of `rows` needs is left out."""
    sidecar, client = servers.sidecar.server, servers.sidecar.client
    bare, twin = BareClient(beside.server.channel), BareClient(beside.twin.channel)
    one, eight, asleep = _prepared(client, 1), _prepared(client, MOST_CHILDREN), _prepared(client, MOST_CHILDREN, True)
    found = (
        Cell(BARE, MANY, beside.server, bare.stream, one, 480, ALWAYS),
        Cell(SIDECAR, MANY, sidecar, client.dispatch, one, 480, frozenset({0, 6, 9})),
        *_durable(servers),
        Cell(TWIN, MANY, beside.twin, twin.stream, one, 480, ALWAYS),
        Cell(BARE, MORE, beside.server, bare.stream, one, 480, frozenset({2})),
        Cell(TWIN, MORE, beside.twin, twin.stream, one, 480, frozenset({2})),
        Cell(BARE, OPEN, beside.server, bare.stream, one, 480, frozenset({9})),
        _dispatches(SIDECAR, servers.sidecar, {9}, OPEN),
        *([_dispatches(SQLITE, servers.sqlite, {9}, OPEN)] if servers.sqlite else []),
        *_beside(servers),
        Cell(BARE, 1, beside.server, bare.stream, one, 200, ALWAYS),
        Cell(SIDECAR, 1, sidecar, client.dispatch, one, 200, frozenset({0})),
        Cell(TWIN, 1, beside.twin, twin.stream, one, 200, ALWAYS),
        Cell(ECHO, MANY, beside.server, bare.echo, one, 800, frozenset({6})),
        Cell(FAN_OUT, MANY, sidecar, client.dispatch, eight, 240, frozenset({6})),
        Cell(ASLEEP, 1, sidecar, client.dispatch, asleep, SLEEPING_TURNS, frozenset({3, 4})),
        *_binds(servers, beside),
        *_plain_binds_and_ends(PLAIN_BIND, END, servers.sidecar),
        *([] if servers.sqlite is None else _plain_binds_and_ends(SQLITE_BIND, SQLITE_END, servers.sqlite)),
    )
    return [cell for cell in found if cell.rows & rows]


def _beside(servers: Sidecars) -> Sequence[Cell]:
    """Return the same dispatch in sidecars that differ in what else is going on."""
    others = ((UNOBSERVED, servers.unobserved), (OBSERVED, servers.observed), (POLICED, servers.policed))
    return [_dispatches(name, of, {7}) for name, of in others if of is not None]


def _binds(servers: Sidecars, beside: Bare) -> Sequence[Cell]:
    """Return binds where rollouts decide, and the same bytes echoed."""
    client = (servers.policed or servers.sidecar).client
    bare = BareClient(beside.server.channel, client.metadata)
    found = []
    for in_flight, usual in ((MANY, 480), (1, 200)):
        found.append(Cell(BARE_BIND, in_flight, beside.server, bare.bind, _new_turns, usual, frozenset({2, 8})))
        if servers.policed is not None:
            server = servers.policed.server
            found.append(Cell(BIND, in_flight, server, client.bind, _new_turns, usual, frozenset({8})))
    return found


async def _new_turns(count: int) -> Sequence[Any]:
    return [turn_request(INSTANT) for _ in range(count)]


def _plain_binds_and_ends(bind: str, end: str, of: Measured) -> Sequence[Cell]:
    """Return the begin and the end of turns, each of a new episode."""

    async def dispatched(count: int) -> Sequence[Any]:
        return await of.client.dispatched(INSTANT, count)

    return (
        Cell(bind, MANY, of.server, of.client.bind, _new_turns, 480, frozenset({15})),
        Cell(end, MANY, of.server, of.client.end, dispatched, 160, frozenset({14})),
    )


def _durable(servers: Sidecars) -> Sequence[Cell]:
    """Return what is asked of sidecars that keep their record in a database."""
    found: list[Cell] = []
    if servers.sqlite is not None:
        server, client = servers.sqlite.server, servers.sqlite.client
        eight, asleep = _prepared(client, MOST_CHILDREN), _prepared(client, MOST_CHILDREN, True)
        found += [
            _dispatches(SQLITE, servers.sqlite, {1, 6, 9}),
            Cell(SQLITE_FAN_OUT, MANY, server, client.dispatch, eight, 240, frozenset({6})),
            Cell(SQLITE_ASLEEP, 1, server, client.dispatch, asleep, SLEEPING_TURNS, frozenset({3, 4})),
            _dispatches(SQLITE, servers.sqlite, {10}, MORE),
        ]
    if servers.postgres is not None:
        found += [
            _dispatches(POSTGRES, servers.postgres, {10}, MORE),
            _dispatches(POSTGRES, servers.postgres, {1, 10}),
        ]
    return found


def _dispatches(target: str, of: Measured, rows: Collection[int], in_flight: int = MANY) -> Cell:
    return Cell(target, in_flight, of.server, of.client.dispatch, _prepared(of.client, 1), 480, frozenset(rows))


def _prepared(
    client: SidecarClient, children: int, sleeping: bool = False
) -> Callable[[int], Awaitable[Sequence[Any]]]:
    async def prepare(count: int) -> Sequence[Any]:
        return await client.prepared(SLEEPING if sleeping else INSTANT, children, count)

    return prepare
