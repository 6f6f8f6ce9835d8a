"""Instances of one journal in PostgreSQL, each with connections of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any

import asyncpg

from sidecar.adapters.record_postgresql import JournalOptions, PostgresJournal
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.ports import Journal
from tests.adapters.records.bench import RecordBench

TABLES = ("facts", "attempt_frames", "markers")
"""That nothing is changed in."""
DERIVED = ("instances", "instance_heads", "turn_heads", "roots")


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
        await connection.execute(f"set session_replication_role = replica; {deleted}")


class PostgresBench(RecordBench):
    """Journals with a lease for the whole test."""

    def __init__(self, dsn: str) -> None:
        """Keep the address."""
        self.dsn = dsn
        self._opened: list[PostgresJournal] = []

    async def journal(self, instance: str) -> PostgresJournal:
        """Return one more instance."""
        options = JournalOptions(lease=timedelta(hours=1), reads=2)
        journal = PostgresJournal(self.dsn, InstanceId(instance), options)
        self._opened.append(journal)
        await journal.renew_lease()
        return journal

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
        for journal in self._opened:
            await journal.close()
