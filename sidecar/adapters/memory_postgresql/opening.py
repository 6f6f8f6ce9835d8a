"""Makes the tables of conversations. They have steps of their own, beside those of the record in the same database."""

from typing import Any, Final

from sidecar.adapters.migrations import load_migrations, pending
from sidecar.adapters.postgresql import shown

PACKAGE: Final = "sidecar.adapters.memory_postgresql"
LOCK: Final = 0x53436869
"""Of the advisory lock under which they are made."""
APPLIED: Final = "select number, checksum from history_migrations"


async def upgrade_history(connection: Any, dsn: str) -> None:
    """Apply the steps that the database lacks, in one transaction and one sidecar at a time.

    Raises:
        DatabaseProblem: it is of another version.
    """
    steps = load_migrations(PACKAGE)
    there = await connection.fetchval("select to_regclass('history_migrations')") is not None
    if there and not pending(steps, dict(await connection.fetch(APPLIED)), shown(dsn)):
        return  # so that a user who may not change the schema can start
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(
            "create table if not exists history_migrations (number integer primary key, name text not null,"
            " checksum text not null, applied_at timestamptz not null default now())"
        )
        for step in pending(steps, dict(await connection.fetch(APPLIED)), shown(dsn)):
            await connection.execute(step.sql)
            await connection.execute(
                "insert into history_migrations (number, name, checksum) values ($1, $2, $3)",
                *(step.number, step.name, step.checksum),
            )
