"""How many connections to PostgreSQL a sidecar has, when everything that has any is busy at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from sidecar.adapters.memory_postgresql import PostgresMemory
from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds
from sidecar.composition.record.open_record import RecordDependencies, opened_record
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import EpisodeId, Principal, Slot, TurnId
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.settings.record import PostgresRecordSettings, RecordSettings
from tests.adapters.records.postgresql_bench import connection_to
from tests.support.record_builders import a_whole_turn
from tests.support.recording.translation import drafts_of

MOST: Final = 10
"""One writes the record, four read it and rollouts, one projects, two are for rollouts, two for conversations.
docs/postgresql.md and docs/scale.md have the number."""
LOOKS: Final = 100
PAUSE: Final = "select pg_sleep(0.1)"
OPEN: Final = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"


async def test_a_sidecar_has_ten_connections_however_much_is_asked_at_once(postgres_dsn: str, tmp_path: Path) -> None:
    """All of them stay open between uses, so that they can be counted afterwards."""
    (tmp_path / "dsn").write_text(postgres_dsn)
    (tmp_path / "dsn").chmod(0o600)
    said = RecordSettings(database="postgresql", postgresql=PostgresRecordSettings(dsn_file=tmp_path / "dsn"))
    tasks = OwnedTasks(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    around = RecordDependencies(SystemClock(), SystemIds(), tasks, MeasuringRecorder(Metrics()), Redactor())
    memory, key = PostgresMemory(postgres_dsn), EpisodeKey(EpisodeId("e"), Principal("u"))
    async with opened_record(said, around) as record, _running(loop for _, loop in record.loops):
        await memory.open()
        await record.store.append(drafts_of(a_whole_turn("turn-1"), record.store.instance))
        work: list[Callable[[], Awaitable[object]]] = [
            lambda: record.store.turn(TurnId("turn-1")),
            lambda: record.store.episodes(5),
            lambda: record.rollouts.rollout(Slot("shop")),
            lambda: record.rollouts.show(1, around.clock.now()),
            lambda: memory.read(key, 5),
        ]
        await _all_at_once(each for each in work for _ in range(30))
        async with connection_to(postgres_dsn) as connection:
            assert await _open_in_the_end(connection) == MOST
        await memory.close()


@asynccontextmanager
async def _running(loops: Iterable[Callable[[], Coroutine[object, object, None]]]) -> AsyncIterator[None]:
    # Ended also if the test fails: what it left would be counted, and would fail, in a later test.
    tasks = [asyncio.ensure_future(loop()) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _open_in_the_end(connection: asyncpg.Connection) -> int:
    """Count until it is not more than `MOST`: the server may count one that was just given up and replaced.

    Under load a statement takes too long; its connection is closed by the sidecar then, but not yet by the server.
    """
    for _ in range(LOOKS):
        if (count := await connection.fetchval(OPEN)) <= MOST:
            break
        await connection.execute(PAUSE)
    return int(count)


async def _all_at_once(work: Iterable[Callable[[], Awaitable[object]]]) -> None:
    await asyncio.gather(*(each() for each in work))
