"""Opens the journal in a PostgreSQL database."""

from dataclasses import replace
from typing import Final

from msgspec import structs

from sidecar.adapters.migrations import load_migrations
from sidecar.adapters.postgresql import behind_transaction_pooler, redacted_dsn, upgrade
from sidecar.adapters.record_postgresql.journal import JournalOptions, PostgresJournal
from sidecar.core.identifiers import InstanceId

SCHEMA: Final = load_migrations("sidecar.adapters.record_postgresql.migrations")


async def open_postgres_journal(
    dsn: str, instance: InstanceId, options: JournalOptions | None = None
) -> PostgresJournal:
    """Update the schema, and register the instance as alive. Close the journal when done.

    Args:
        dsn: the address of the database, a URL: `postgresql://user:password@host/database`.
        instance: a new id at each start.
        options: limits, lease, and the receiver of anomalies.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was created by other steps; or the server is too
            old.
        StoreUnavailable: the database cannot be reached, or refuses the connection.
    """
    options = options or JournalOptions()
    # Before the journal is created, because its statements depend on `pooled`. A setting of true saves the probe.
    if not options.limits.pooled and await behind_transaction_pooler(dsn, options.limits):
        options.anomaly(
            "transaction_pooler", f"{redacted_dsn(dsn)}: changes show after a second; see docs/postgresql.md"
        )
        options = structs.replace(options, limits=replace(options.limits, pooled=True))
    # Before the first lease, whose table the schema creates.
    await upgrade(dsn, SCHEMA, options.limits)
    journal = PostgresJournal(dsn, instance, options)
    try:
        await journal.renew_lease()
    except BaseException:  # also a cancellation: the connections must not outlive it
        await journal.close()
        raise
    return journal
