"""Opens a database file: checks SQLite's version, takes the lock, applies the settings, and checks the schema."""

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem, Migration, pending

LEAST_VERSION: Final = (3, 51, 3)
"""The oldest accepted version of SQLite. In older ones, two connections that write and checkpoint at the same time can
lose committed data (the WAL-reset bug)."""
BUSY_MILLISECONDS: Final = 1000
"""The time for which a statement waits for a lock of another connection."""
PAGE_BYTES: Final = 1024
"""Page size of a new file.

A commit writes whole pages, and changes in most of them only one short row of an index. With SQLite's usual 4,096
bytes, a dispatch writes 1.6 times as many bytes in a small record, and twice as many in a large one.
"""
COPIED_AT_ONCE: Final = 64 * 1024
"""Bytes of the log that are copied at a time. SQLite's `xWrite` accepts at most 131,071; more is reported as "disk
full"."""
CHECKED_UP_TO: Final = 64 * 1024 * 1024
"""Size in bytes up to which a file is checked completely at each start. The check reads the whole file."""


class Schema(Struct, frozen=True):
    """A kind of database file.

    Attributes:
        what: the content in a few words, for messages, e.g. `the record`.
        application_id: a number in the file's header, by which a file of another kind is refused; 32 bits, not 0.
        migrations: the steps that create the tables, in order.
        tuned: sets further options of each new connection; None: there are none.
    """

    what: str
    application_id: int
    migrations: Sequence[Migration]
    tuned: Callable[[apsw.Connection], None] | None = None


def check_version(linked: str | None = None) -> None:
    """Raise `DatabaseProblem` if the version of SQLite may lose data.

    Args:
        linked: the version, for tests; None: the version of the library.
    """
    version = linked or apsw.sqlite_lib_version()
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise DatabaseProblem(
            f"SQLite {version} can lose committed data (its WAL-reset bug); {least} or later is needed: upgrade apsw"
        )


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Create the folder of a database, and lock the database for this process while the context is open.

    Raises:
        DatabaseHeld: another process has the lock.
        DatabaseProblem: the folder cannot be used.
    """
    # A file of its own. Locking and closing the database file itself would release the locks that SQLite has on it.
    lock = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DatabaseProblem(f"{lock} cannot be made: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DatabaseHeld(
                f"{path} is open in another process, which holds {lock}: stop it, or give each its own file"
            ) from None
        yield
    finally:
        # Releases the lock. The lock file stays: if it were removed, another process could still hold the removed file
        # while a third one locks a new file of the same name.
        os.close(handle)


def rewrite_log(path: Path, vfs: str | None = None) -> None:
    """Rewrite and sync the write-ahead log of an earlier process, before the first connection is opened.

    The earlier process may have died after a failed sync. The kernel then still returns the pages of its last commit,
    but considers them written and never writes them again. The commit would be read as recorded, and a power cut would
    lose it with all later commits.

    A checkpoint would not be enough: after a power cut during the checkpoint, the file would be partly written, and the
    log could not complete it. Raises `apsw.Error`.
    """
    log = path.with_name(f"{path.name}-wal")
    if not (path.exists() and log.exists()):  # SQLite ignores and removes a log without its file
        return
    file = apsw.VFSFile(vfs or "", str(log), [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_WAL, 0])
    try:
        size = file.xFileSize()
        for at in range(0, size, COPIED_AT_ONCE):
            file.xWrite(file.xRead(min(COPIED_AT_ONCE, size - at), at), at)
        if size:
            file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()


def connect(path: Path, schema: Schema, vfs: str | None = None, *, read_only: bool = False) -> apsw.Connection:
    """Open one connection and set its options. Creates the file if it does not exist. Raises `apsw.Error`."""
    if not read_only and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite would create it readable for all users
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        if not read_only:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # has no effect on an existing file with pages
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # NORMAL loses acknowledged commits in most power cuts
        connection.execute("PRAGMA foreign_keys = ON")
        # The schema of a file from elsewhere must not call functions with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.wal_autocheckpoint(0)  # a thread of its own makes checkpoints, so that no commit waits for one
        # A checkpoint when the connection closes could sync again after a failed sync, which then falsely succeeds.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if schema.tuned is not None:
            schema.tuned(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def close_failed(connection: apsw.Connection | None) -> None:
    """Close a connection that may have failed; errors of the close are ignored."""
    with suppress(apsw.Error):
        if connection is not None:
            connection.close(True)


def upgrade(connection: apsw.Connection, schema: Schema, where: str) -> tuple[Migration, ...]:
    """Check the kind of the file, and apply the missing schema steps, each in one transaction. Return these steps.

    Raises:
        DatabaseProblem: the file is damaged, of another kind, or of another version.
    """
    try:
        _check_owner(connection, schema, where)  # before the first write, which would damage a file of another program
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL,"
            " checksum TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT"
        )
        lacking = pending(schema.migrations, _applied(connection), where)
        for migration in lacking:
            _apply(connection, migration, schema.application_id)
        _check_sound(connection, where)
    except (apsw.NotADBError, apsw.CorruptError):
        raise DatabaseProblem(f"{where} is damaged, or not a SQLite database: restore a backup") from None
    return lacking


def pending_migrations(path: Path, schema: Schema) -> tuple[Migration, ...]:
    """Return the schema steps that the file lacks; all of them if there is no file. Changes nothing.

    Raises:
        DatabaseProblem: the file is damaged, of another kind, or of another version.
    """
    if not path.exists():
        return tuple(schema.migrations)
    try:
        connection = connect(path, schema, read_only=True)
        try:
            _check_owner(connection, schema, str(path))
            return pending(schema.migrations, _applied(connection), str(path))
        finally:
            connection.close()
    except apsw.Error:
        raise DatabaseProblem(f"{path} cannot be read, or is not a SQLite database") from None


def _apply(connection: apsw.Connection, migration: Migration, application_id: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(migration.sql)
        connection.execute(
            "INSERT INTO schema_migrations VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
            (migration.number, migration.name, migration.checksum),
        )
        # In the same transaction: a file with tables always has its id, and is never taken for a foreign one.
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # after some errors SQLite has rolled back already
            connection.execute("ROLLBACK")
        raise


def _applied(connection: apsw.Connection) -> Mapping[int, str]:
    if not connection.table_exists("main", "schema_migrations"):
        return {}
    return dict(connection.execute("SELECT number, checksum FROM schema_migrations"))


def _check_owner(connection: apsw.Connection, schema: Schema, where: str) -> None:
    application_id = connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name <> 'schema_migrations'").get
    # A new file has the id 0. Without tables, it belongs to no other program. The excluded table may exist: `upgrade`
    # creates it before the first step, and a process may end in between.
    if application_id not in {0, schema.application_id} or (application_id == 0 and tables):
        raise DatabaseProblem(f"{where} is a database of something else than {schema.what}: give another path")


def _check_sound(connection: apsw.Connection, where: str) -> None:
    # The argument ends the check at the first problem.
    size = connection.pragma("page_count") * connection.pragma("page_size")
    if size <= CHECKED_UP_TO and connection.execute("PRAGMA quick_check(1)").get != "ok":
        raise DatabaseProblem(f"{where} is damaged: restore a backup")
