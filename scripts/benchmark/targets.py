"""What has its turn in each round: who is asked, for what, and how much at a time."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scripts.benchmark.clients import BareClient, SidecarClient, turn_request
from scripts.benchmark.definitions import INSTANT, MOST_CHILDREN, SLEEPING
from scripts.benchmark.load import Call
from scripts.benchmark.processes import Server

MANY: Final = 16
"""Requests in flight where the rate is what counts."""
MORE: Final = 64
"""Requests in flight where databases are compared: enough to fill their groups."""
OPEN: Final = 0
"""Stands for an open loop: requests come at random times, half as many a second as the target could answer."""

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
BIND: Final = "sidecar, BindTurn"
BARE_BIND: Final = "bare BindTurn echo"

SLEEPING_TURNS: Final = 32
"""Turns in a round where eight sub-agents sleep."""


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
        sqlite, postgres: sidecars with their record in a database; None: not measured, or not installed.
    """

    sidecar: Measured
    unobserved: Measured
    observed: Measured
    sqlite: Measured | None
    postgres: Measured | None
    bare: Server
    twin: Server

    async def end_all(self) -> None:
        """End every turn that was bound."""
        for each in (self.sidecar, self.unobserved, self.observed, self.sqlite, self.postgres):
            if each is not None:
                await each.client.end_all()


def cells(servers: Servers) -> Sequence[Cell]:
    """Return what has its turn in each round, in this order."""
    sidecar, client = servers.sidecar.server, servers.sidecar.client
    bare, twin = BareClient(servers.bare.channel), BareClient(servers.twin.channel)
    one, eight, asleep = _prepared(client, 1), _prepared(client, MOST_CHILDREN), _prepared(client, MOST_CHILDREN, True)

    async def turns(count: int) -> Sequence[Any]:
        return [turn_request(INSTANT) for _ in range(count)]

    return (
        Cell(BARE, MANY, servers.bare, bare.stream, one, 480),
        Cell(SIDECAR, MANY, sidecar, client.dispatch, one, 480),
        *_durable(servers),
        Cell(TWIN, MANY, servers.twin, twin.stream, one, 480),
        Cell(BARE, OPEN, servers.bare, bare.stream, one, 480),
        *(_dispatches(name, of, OPEN) for name, of in ((SIDECAR, servers.sidecar), (SQLITE, servers.sqlite)) if of),
        _dispatches(UNOBSERVED, servers.unobserved),
        _dispatches(OBSERVED, servers.observed),
        Cell(BARE, 1, servers.bare, bare.stream, one, 200),
        Cell(SIDECAR, 1, sidecar, client.dispatch, one, 200),
        Cell(TWIN, 1, servers.twin, twin.stream, one, 200),
        Cell(ECHO, MANY, servers.bare, bare.echo, one, 800),
        Cell(FAN_OUT, MANY, sidecar, client.dispatch, eight, 240),
        Cell(ASLEEP, 1, sidecar, client.dispatch, asleep, SLEEPING_TURNS),
        Cell(BARE_BIND, MANY, servers.bare, bare.bind, turns, 480),
        Cell(BIND, MANY, sidecar, client.bind, turns, 480),
    )


def _durable(servers: Servers) -> Sequence[Cell]:
    """Return what is asked of sidecars that keep their record in a database."""
    found: list[Cell] = []
    if servers.sqlite is not None:
        server, client = servers.sqlite.server, servers.sqlite.client
        eight, asleep = _prepared(client, MOST_CHILDREN), _prepared(client, MOST_CHILDREN, True)
        found += [
            _dispatches(SQLITE, servers.sqlite),
            Cell(SQLITE_FAN_OUT, MANY, server, client.dispatch, eight, 240),
            Cell(SQLITE_ASLEEP, 1, server, client.dispatch, asleep, SLEEPING_TURNS),
            _dispatches(SQLITE, servers.sqlite, MORE),
        ]
    if servers.postgres is not None:
        found += [_dispatches(POSTGRES, servers.postgres, MORE), _dispatches(POSTGRES, servers.postgres)]
    return found


def _dispatches(target: str, of: Measured, in_flight: int = MANY) -> Cell:
    return Cell(target, in_flight, of.server, of.client.dispatch, _prepared(of.client, 1), 480)


def _prepared(
    client: SidecarClient, children: int, sleeping: bool = False
) -> Callable[[int], Awaitable[Sequence[Any]]]:
    async def prepare(count: int) -> Sequence[Any]:
        return await client.prepared(SLEEPING if sleeping else INSTANT, children, count)

    return prepare
