"""Opens the record in a PostgreSQL database."""

from dataclasses import replace
from typing import Final

from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.postgresql import behind_transaction_pooler, shown, upgrade
from sidecar.adapters.record_postgresql.record import PostgresRecord, RecordOptions
from sidecar.core.identifiers import InstanceId

SCHEMA: Final = load_migrations("sidecar.adapters.record_postgresql.migrations")


async def open_postgres_record(dsn: str, instance: InstanceId, options: RecordOptions | None = None) -> PostgresRecord:
    """Bring the schema up to date, and register the instance as alive. Close the record when done.

    Args:
        dsn: as libpq takes it, `postgresql://user:password@host/database`.
        instance: a new id at each start.
        options: limits, lease, and who is told of what should not happen.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was made by another one.
        StoreUnavailable: it cannot be reached, or does not let us.
    """
    options = options or RecordOptions()
    if not options.limits.pooled and await behind_transaction_pooler(dsn, options.limits):
        options.anomaly("transaction_pooler", f"{shown(dsn)}: changes show after a second; see docs/postgresql.md")
        options = replace(options, limits=replace(options.limits, pooled=True))
    await upgrade(dsn, SCHEMA, options.limits)
    record = PostgresRecord(dsn, instance, options)
    try:
        await record.renew_lease()
    except BaseException:
        await record.close()
        raise
    return record
