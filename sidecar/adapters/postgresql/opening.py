"""Opens a database: detects a pooler in between, and checks the version of the schema."""

import asyncio
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import asyncpg

from sidecar.adapters.migrations import DatabaseProblem, Migration, pending
from sidecar.adapters.postgresql.connections import Connection, ConnectionTimeouts, connected
from sidecar.adapters.postgresql.failures import AGAIN, BROKEN, unavailable
from sidecar.core.errors import StoreUnavailable

LEAST_VERSION: Final = 13
"""The oldest accepted major version of the server."""
TABLE: Final = "schema_migrations"
LOCK: Final = 0x53494445
"""Number of the advisory lock under which a schema is changed."""
SECONDS_TO_MIGRATE: Final = 300.0
"""Time limit of all missing steps, including the wait for another sidecar that applies them."""
SECONDS_TO_BE_HEARD: Final = 1.0
"""Seconds within which a notification to oneself must arrive; a direct connection delivers it in milliseconds."""
BACKEND: Final = "select pg_backend_pid()"
TRIES: Final = 5
"""Number of tests for a pooler."""
Result = TypeVar("Result")


def redacted_dsn(dsn: str) -> str:
    """Return a database's address without its secrets, i.e. without user, password and options.

    Args:
        dsn: a URL that the driver has accepted. It accepts no `key=value` form, whose password would be in the path.
    """
    try:
        parts = urlsplit(dsn)
        name, port = parts.path.lstrip("/"), parts.port
    except ValueError:  # e.g. several hosts, which the driver accepts
        return "the PostgreSQL database"
    where = f"{parts.hostname}:{port}" if parts.hostname and port else parts.hostname
    return f"PostgreSQL database {name or '(default)'}" + (f" at {where}" if where else "")


async def behind_transaction_pooler(dsn: str, limits: ConnectionTimeouts) -> bool:
    """Return whether each transaction may use another server connection, or notifications get lost.

    Raises:
        StoreUnavailable: there is no connection.
    """
    # Without prepared statements: a transaction pooler may refuse them, and this probe has to find that pooler.
    unprepared = ConnectionTimeouts(limits.connect, limits.statement, limits.lock, pooled=True)
    connection = await connected(dsn, unprepared)
    try:
        # Any pooler reports a process number of its own instead of the server process's.
        has_pooler = await _backend(connection, limits) != connection.get_server_pid()
        # A session pooler is no problem: it keeps one server connection for each client.
        if has_pooler and await _changes_backends(connection, dsn, unprepared):
            return True
        return not await _hears_itself(connection, limits)
    finally:
        connection.terminate()


async def _changes_backends(connection: Connection, dsn: str, limits: ConnectionTimeouts) -> bool:
    """Return whether another client can get the server connection that this client had before.

    A pooler without other work gives a client the same connection again and again, and then even a notification to
    itself arrives. A second client therefore holds a connection. If this connection is the one that the first client
    had, or if the first client now gets another one or none, a pooler is in between. Other clients can hide this, so
    the test is repeated.
    """
    other = await connected(dsn, limits)
    try:
        for _ in range(TRIES):
            before = await _backend(connection, limits)
            async with other.transaction():
                other_backend = await _backend(other, limits)
                # If the pooler has only one server connection, which the other client holds, no answer comes.
                async with asyncio.timeout(SECONDS_TO_BE_HEARD):
                    after = await connection.fetchval(BACKEND)
            if other_backend == before or after != before:
                return True
    except TimeoutError:
        return True
    finally:
        other.terminate()
    return False


async def _backend(connection: Connection, limits: ConnectionTimeouts) -> int:
    """Return the process number of the answering server process."""
    number: int = await _within(connection.fetchval(BACKEND), limits.statement)
    return number


async def _hears_itself(connection: Connection, limits: ConnectionTimeouts) -> bool:
    # A random name: the notification of another sidecar that probes at the same time must not count.
    heard, channel = asyncio.Event(), f"probe_{secrets.token_hex(8)}"
    await _within(connection.add_listener(channel, lambda *_: heard.set()), limits.statement)
    await _within(connection.execute("select pg_notify($1, '')", channel), limits.statement)
    try:
        async with asyncio.timeout(SECONDS_TO_BE_HEARD):
            await heard.wait()
    except TimeoutError:
        return False
    return True


async def pending_migrations(
    dsn: str, migrations: Sequence[Migration], limits: ConnectionTimeouts
) -> tuple[Migration, ...]:
    """Return the steps that the database lacks, and change nothing.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was created by other steps.
        StoreUnavailable: the database cannot be reached.
    """
    connection = await connected(dsn, limits)
    try:
        return pending(migrations, await _within(_applied(connection), limits.statement), redacted_dsn(dsn))
    finally:
        connection.terminate()


async def upgrade(dsn: str, migrations: Sequence[Migration], limits: ConnectionTimeouts) -> tuple[Migration, ...]:
    """Apply the missing steps, in one transaction and one sidecar at a time; return them.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was created by other steps; or the server is too
            old.
        StoreUnavailable: the database cannot be reached, or refuses the connection.
    """
    connection = await connected(dsn, limits)
    try:
        if connection.get_server_version().major < LEAST_VERSION:
            raise DatabaseProblem(f"{redacted_dsn(dsn)} runs on a server older than PostgreSQL {LEAST_VERSION}")
        return await _within(upgrade_tables(connection, migrations, redacted_dsn(dsn)), SECONDS_TO_MIGRATE)
    finally:
        connection.terminate()


async def upgrade_tables(
    connection: Connection, migrations: Sequence[Migration], where: str, table: str = TABLE, lock: int = LOCK
) -> tuple[Migration, ...]:
    """Apply the missing steps, in one transaction and one sidecar at a time; return them.

    Args:
        connection: outside a transaction.
        migrations: all steps.
        where: the database, for messages.
        table: contains the applied steps.
        lock: number of the advisory lock.

    Raises:
        DatabaseProblem: the database is newer than this sidecar, or was created by other steps.
    """
    if not pending(migrations, await _applied(connection, table), where):
        return ()  # before any lock: a sidecar can start although its database user may not change the schema
    async with connection.transaction():
        # A migration of a large table may take minutes, and other sidecars wait for the advisory lock as long.
        await connection.execute("set local statement_timeout = 0; set local lock_timeout = 0")
        await connection.execute(f"select pg_advisory_xact_lock({lock})")
        await connection.execute(
            f"create table if not exists {table} (number integer primary key, name text not null,"
            " checksum text not null, applied_at timestamptz not null default now())"
        )
        # Read again under the lock: another sidecar may have applied the steps while this one waited.
        lacking = pending(migrations, await _applied(connection, table), where)
        for migration in lacking:
            await connection.execute(migration.sql)
            await connection.execute(
                f"insert into {table} (number, name, checksum) values ($1, $2, $3)",  # noqa: S608 - a name of ours
                *(migration.number, migration.name, migration.checksum),
            )
    return lacking


async def _applied(connection: Connection, table: str = TABLE) -> Mapping[int, str]:
    if await connection.fetchval("select to_regclass($1)", table) is None:
        return {}
    rows: list[Any] = await connection.fetch(f"select number, checksum from {table}")  # noqa: S608 - a name of ours
    return {row["number"]: row["checksum"] for row in rows}


async def _within(work: Awaitable[Result], within: float) -> Result:
    try:
        async with asyncio.timeout(within):
            return await work
    except asyncpg.PostgresError as error:
        raise unavailable(error, "be prepared") from None
    except BROKEN:  # including the time limit
        raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN) from None
