"""A sidecar that is killed at any moment while clients have turns, started again, and killed again.

Short in `make test`; `SIDECAR_TORTURE_KILLS` sets how often, `SIDECAR_TORTURE_SECONDS` makes each run last as long,
`SIDECAR_TORTURE_SEED` repeats its choices. Both print figures.

The kills are spread over rounds, each with a record and clients of its own. With one record for all of them the
verification after each kill reads all turns so far, and the clients make more turns the longer it takes.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.support.postgres import PostgresServer
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.system.torture.agents import agents_for, pause
from tests.system.torture.checker import Database, PostgresDatabase, SqliteFile, compare, figures, over, spread
from tests.system.torture.clients import Told, clients_at_work
from tests.system.torture.lists import lists_hold
from tests.system.torture.places import (
    SECONDS,
    client_of,
    dice,
    limit_of,
    seed,
    serving,
    settings_of,
    signed,
    strikes,
    tell,
    verified,
)

pytestmark = pytest.mark.system

KILLS_ON_SQLITE = strikes("KILLS", 2)
KILLS_ON_POSTGRESQL = max(1, strikes("KILLS", 10) // 10)
KILLS_OF_A_ROUND = 20
ROUNDS_AT_A_TIME = 2
LONGEST_LIFE = 1.2
"""Seconds that a sidecar lives after it listens, at most."""


@dataclass
class Tally:
    """What all rounds came to.

    Attributes:
        seed: of the first round; each further round has the next one.
        recovered: seconds from each start to the first answer.
        sums: the figures of the rounds, added up.
    """

    seed: int
    recovered: list[float] = field(default_factory=list)
    sums: Counter[str] = field(default_factory=Counter)

    def tell(self, what: str) -> None:
        """Print the figures."""
        again = spread(self.recovered)
        tell(what, self.seed, {"kills": len(self.recovered), **self.sums, "s to the first answer again": again})


@requirement("SX-38")
@pytest.mark.seconds(limit_of(KILLS_ON_SQLITE))
async def test_nothing_acknowledged_is_lost_when_the_sidecar_is_killed() -> None:
    """The record is a file: what one process left, the next one settles and closes."""
    tally = Tally(seed())

    async def had(number: int, kills: int) -> None:
        with place() as folder:
            more, record = settings_of(folder, folder), SqliteFile(folder / "record" / "record.sqlite")
            await _tortured(tally, dice(tally.seed + number), folder, more, record, kills)

    await in_rounds(KILLS_ON_SQLITE, had)
    tally.tell("SIGKILL, SQLite")


@requirement("SX-38")
@pytest.mark.seconds(limit_of(KILLS_ON_POSTGRESQL))
async def test_nothing_acknowledged_is_lost_when_a_sidecar_before_postgresql_is_killed(server: PostgresServer) -> None:
    """Each start is another instance there: it has to wait for the lease of the one before."""
    tally = Tally(seed())

    async def had(number: int, kills: int) -> None:
        database = server.new_database()
        with place() as folder:
            more, record = settings_of(folder, folder, server.dsn(database)), PostgresDatabase(server, database)
            await _tortured(tally, dice(tally.seed + number), folder, more, record, kills)

    await in_rounds(KILLS_ON_POSTGRESQL, had)
    tally.tell("SIGKILL, PostgreSQL")


def rounds(kills: int) -> Iterator[tuple[int, int]]:
    """Yield the number and the kills of each round: all kills, and rounds for as long as the long form lasts."""
    until, number = time.monotonic() + SECONDS, 0
    while kills > 0 or time.monotonic() < until:
        yield number, min(kills, KILLS_OF_A_ROUND) if kills > 0 else KILLS_OF_A_ROUND
        number, kills = number + 1, kills - KILLS_OF_A_ROUND


async def in_rounds(kills: int, had: Callable[[int, int], Awaitable[None]]) -> None:
    """Have all rounds, a few at a time: a round often waits for a start."""
    left = rounds(kills)

    async def one_after_the_other() -> None:
        for number, of_round in left:
            await had(number, of_round)

    async with asyncio.TaskGroup() as group:
        for _ in range(ROUNDS_AT_A_TIME):
            group.create_task(one_after_the_other())


async def _tortured(tally: Tally, chosen: Random, folder: Path, more: str, database: Database, kills: int) -> None:
    """Kill a sidecar again and again, let the last one bring everything to an end, and compare."""
    async with agents_for(folder, chosen) as agents, AsyncExitStack() as last:
        async with clients_at_work(partial(client_of, folder), chosen) as told:
            for _ in range(kills):
                await _killed(folder, more, told, chosen, tally.recovered)
            sidecar = await last.enter_async_context(serving(folder, more))
        await over(database)
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0
    await verified(folder)
    await lists_hold(folder, database)
    found = compare(told, database)
    agents.check()
    assert (found.lost, found.doubled, found.odd) == ([], [], [])
    tally.sums.update(figures(told, found))


async def _killed(folder: Path, more: str, told: Told, chosen: Random, recovered: list[float]) -> None:
    """Let a sidecar live for a moment, from its first answer; verify beside the next work what it left."""
    began = time.monotonic()
    async with serving(folder, more) as sidecar:
        await told.progress(1)
        recovered.append(time.monotonic() - began)
        living = pause(chosen.uniform(0.0, LONGEST_LIFE))
        if signed(folder):
            await asyncio.gather(verified(folder), living)
        else:
            await living
        sidecar.signal(signal.SIGKILL)
        await sidecar.ended()
