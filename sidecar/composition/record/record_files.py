"""Maintains a record from the command line: applies schema changes, and makes backups."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apsw

from sidecar.adapters.migrations import DatabaseProblem, Migration
from sidecar.adapters.record_sqlite import record_schema
from sidecar.adapters.sqlite import pending_migrations, upgrade
from sidecar.adapters.sqlite.backup import back_up
from sidecar.adapters.sqlite.opening import check_version, connect, held
from sidecar.adapters.system import SecretFileProblem
from sidecar.composition.record.open_record import dsn_of
from sidecar.core.errors import StoreUnavailable
from sidecar.observability.redaction import Redactor
from sidecar.settings import Settings, SettingsProblem
from sidecar.settings.record import PostgresRecordSettings


def migrate_record(settings: Settings, preview: bool) -> Sequence[str]:
    """Apply the pending schema steps, and return their names.

    Args:
        settings: select the record.
        preview: only return the names; nothing is changed.

    Raises:
        SettingsProblem: the record cannot be opened, or a sidecar has it open.
    """
    configured = settings.record
    with _as_settings_problem(f"record.{configured.database}"):
        match configured.database:
            case "memory":
                return []
            case "sqlite":
                return [str(step) for step in _migrate_sqlite(configured.sqlite.path, preview)]
            case "postgresql":
                return [str(step) for step in asyncio.run(_migrate_postgresql(configured.postgresql, preview))]


def back_up_record(settings: Settings, target: Path) -> None:
    """Copy the record in its present state. A running sidecar may write to it at the same time.

    Raises:
        SettingsProblem: there is no record, or the copy cannot be written.
    """
    configured = settings.record
    if configured.database != "sqlite":
        advice = "use pg_dump" if configured.database == "postgresql" else "there is nothing to keep"
        raise SettingsProblem([f"record.database is {configured.database}: {advice}"])
    with _as_settings_problem("record.sqlite"):
        # An SQLite library with known defects could damage the copy.
        check_version()
        back_up(configured.sqlite.path, target)


def _migrate_sqlite(path: Path, preview: bool) -> Sequence[Migration]:
    """Apply the pending steps to a file, or only return them. Raises `DatabaseProblem`."""
    check_version()
    schema = record_schema()
    # Without the lock, so that the steps can be listed while a sidecar runs.
    if preview:
        return pending_migrations(path, schema)
    # The lock excludes sidecars: a running one would write rows in the old form after the change.
    with held(path):
        connection = connect(path, schema)
        try:
            return upgrade(connection, schema, str(path))
        finally:
            connection.close()


async def _migrate_postgresql(configured: PostgresRecordSettings, preview: bool) -> Sequence[Migration]:
    try:
        from sidecar.adapters import postgresql  # noqa: PLC0415  its library is an extra
        from sidecar.adapters.record_postgresql import SCHEMA  # noqa: PLC0415  the same holds
    except ModuleNotFoundError:
        raise DatabaseProblem("needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
    limits = postgresql.ConnectionTimeouts(
        configured.connect_timeout.total_seconds(), configured.statement_timeout.total_seconds()
    )
    # A lock in the database makes replicas that start at the same time apply each step once.
    apply = postgresql.pending_migrations if preview else postgresql.upgrade
    return await apply(dsn_of(configured, Redactor()), SCHEMA, limits)


@contextmanager
def _as_settings_problem(where: str) -> Iterator[None]:
    """Convert the errors of a database to the one that the command line reports, with the setting that names it."""
    try:
        yield
    except (DatabaseProblem, SecretFileProblem, StoreUnavailable) as problem:
        raise SettingsProblem([f"{where}: {problem}"]) from None
    except apsw.Error as error:
        raise SettingsProblem([f"{where}: the disk does not let us ({type(error).__name__})"]) from None
