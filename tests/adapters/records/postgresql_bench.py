"""Instances of one journal in PostgreSQL, each with connections of its own."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from types import TracebackType
from typing import Any

import asyncpg

from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.adapters.record_postgresql import JournalOptions, PostgresJournal, PostgresProjection
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import TurnAppend
from sidecar.core.journal.chain import NOTHING, rooted
from sidecar.core.journal.encoding import SALT_BYTES
from sidecar.core.journal.entries import Stored
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from tests.adapters.records.bench import OpenedRecord, RecordBench
from tests.support.recording.translation import TranslatedTurn, turn_of

LISTED = ("listed_turns", "listed_labels", "listed_episodes")
TABLES = ("facts", "attempt_frames", "markers", "erasures")
"""That nothing is changed in."""
DERIVED = ("instances", "instance_heads", "turn_heads", "roots", "lists_watermarks", *LISTED)


@asynccontextmanager
async def connection_to(dsn: str) -> AsyncIterator[Any]:
    """Give a bare connection."""
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def emptied(dsn: str) -> None:
    """Empty a journal as only a superuser can, which is quicker than to make another database."""
    async with connection_to(dsn) as connection:
        deleted = "; ".join(f"delete from {table}" for table in (*TABLES, *DERIVED))
        taken = "update lists_taken set generation = 0, alterations = 0"
        await connection.execute(f"set session_replication_role = replica; {deleted}; {taken}")


class PostgresBench(RecordBench):
    """Journals with a lease for the whole test."""

    def __init__(self, dsn: str) -> None:
        """Keep the address."""
        self.dsn = dsn
        self._opened: list[PostgresJournal] = []
        self._projections: list[PostgresProjection] = []

    async def journal(self, instance: str) -> PostgresJournal:
        """Return one more instance."""
        options = JournalOptions(lease=timedelta(hours=1), reads=2)
        journal = PostgresJournal(self.dsn, InstanceId(instance), options)
        self._opened.append(journal)
        await journal.renew_lease()
        return journal

    def projection(self, instance: str) -> Projection:
        """Return the rows in the same database."""
        self._projections.append(PostgresProjection(self.dsn, InstanceId(instance), ConnectionTimeouts()))
        return self._projections[-1]

    async def kill(self, journal: Journal) -> None:
        """Let its lease run out."""
        async with connection_to(self.dsn) as connection:
            await connection.execute(
                "update instances set lease_until = clock_timestamp() - interval '1 ms' where instance_id = $1",
                journal.instance,
            )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close every instance."""
        for projection in self._projections:
            await projection.close()
        for journal in self._opened:
            await journal.close()


Opened = Callable[[Journal, Projection], OpenedRecord]
"""The class of the store."""


@asynccontextmanager
async def two_instances(dsn: str, opened: Opened = OpenedRecord) -> AsyncIterator[tuple[OpenedRecord, OpenedRecord]]:
    """Give two instances of one record."""
    async with PostgresBench(dsn) as bench:
        first, second = [opened(await bench.journal(name), bench.projection(name)) for name in ("one", "two")]
        yield first, second


def decided(record: OpenedRecord, facts: Sequence[Stored], *records: Record) -> TurnAppend:
    """Return what an instance appends that decides about records of a turn which has the given facts."""
    turn = TranslatedTurn(turn_of(records[0]), facts)
    taken = turn.take(records, record.instance, lambda: bytes(SALT_BYTES))
    assert not isinstance(taken, str), taken
    state = turn.state
    assert state.day is not None
    return TurnAppend(state.turn_id, state.day, len(facts), state.head, state.index, taken.facts, taken.frames)


async def a_session_waits(connection: Any, sessions: int = 1) -> None:
    """Return as soon as a session of the server, or more, waits for a lock."""
    while await connection.fetchval("select count(distinct pid) from pg_locks where not granted") < sessions:
        pass


async def check_journal(dsn: str) -> None:
    """Fail unless heads, numbers and roots are what the facts say, and nothing is missing or there twice."""
    async with connection_to(dsn) as connection:
        heads = dict(await connection.fetch("select turn_id, version from turn_heads"))
        versions: dict[str, list[int]] = {turn_id: [] for turn_id in heads}
        for turn_id, version in await connection.fetch("select turn_id, version from facts order by version"):
            versions[turn_id].append(version)
        assert versions == {turn_id: list(range(1, version + 1)) for turn_id, version in heads.items()}

        numbers: dict[str, list[int]] = {}
        roots: dict[tuple[str, date], tuple[int, bytes]] = {}
        asked = "select instance_id, day, number, link from facts order by number"
        for instance, day, number, link in await connection.fetch(asked):
            numbers.setdefault(instance, []).append(number)
            count, root = roots.get((instance, day), (0, NOTHING))
            roots[instance, day] = count + 1, rooted(root, link)
        reached = dict(await connection.fetch("select instance_id, number from instance_heads"))
        for instance, given in numbers.items():  # those of before may have been removed
            assert given == list(range(reached[instance] - len(given) + 1, reached[instance] + 1))
        kept = await connection.fetch("select instance_id, day, number, root from roots")
        assert roots == {(instance, day): (number, root) for instance, day, number, root in kept}
