"""A sidecar that is killed at any moment while clients have turns, started again, and killed again.

Short in `make test`; `SIDECAR_TORTURE_KILLS` sets how often, `SIDECAR_TORTURE_SECONDS` makes each run last as long,
`SIDECAR_TORTURE_SEED` repeats its choices. Both print figures.
"""

import asyncio
import signal
import time
from contextlib import AsyncExitStack
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
KILLS_ON_POSTGRESQL = strikes("KILLS", 10) // 10
LONGEST_LIFE = 1.2
"""Seconds that a sidecar lives after it listens, at most."""


@requirement("SX-38")
@pytest.mark.seconds(limit_of(KILLS_ON_SQLITE))
async def test_nothing_acknowledged_is_lost_when_the_sidecar_is_killed() -> None:
    """The record is a file: what one process left, the next one settles and closes."""
    with place() as folder:
        more = settings_of(folder, folder)
        await _tortured(
            "SIGKILL, SQLite", folder, more, SqliteFile(folder / "record" / "record.sqlite"), KILLS_ON_SQLITE
        )


@requirement("SX-38")
@pytest.mark.seconds(limit_of(KILLS_ON_POSTGRESQL))
async def test_nothing_acknowledged_is_lost_when_a_sidecar_before_postgresql_is_killed(server: PostgresServer) -> None:
    """Each start is another instance there: it has to wait for the lease of the one before."""
    database = server.new_database()
    with place() as folder:
        more = settings_of(folder, folder, server.dsn(database))
        await _tortured("SIGKILL, PostgreSQL", folder, more, PostgresDatabase(server, database), KILLS_ON_POSTGRESQL)


async def _tortured(what: str, folder: Path, more: str, database: Database, kills: int) -> None:
    """Kill a sidecar again and again, let the last one bring everything to an end, and compare."""
    number = seed()
    chosen = dice(number)
    recovered: list[float] = []
    async with agents_for(folder, chosen) as agents, AsyncExitStack() as last:
        async with clients_at_work(partial(client_of, folder), chosen) as told:
            until = asyncio.get_running_loop().time() + SECONDS
            while len(recovered) < kills or asyncio.get_running_loop().time() < until:
                await _killed(folder, more, told, chosen, recovered)
            sidecar = await last.enter_async_context(serving(folder, more))
        await over(database)
        sidecar.signal(signal.SIGTERM)
        assert await sidecar.ended() == 0
    await verified(folder)
    found = compare(told, database)
    tell(
        what,
        number,
        {"kills": len(recovered), **figures(told, found), "s to the first answer again": spread(recovered)},
    )
    agents.check()
    assert (found.lost, found.doubled, found.odd) == ([], [], [])


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
