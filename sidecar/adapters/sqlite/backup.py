"""Copies a SQLite database to a new file while a sidecar writes to it."""

import os
from contextlib import suppress
from pathlib import Path

import apsw

from sidecar.adapters.migrations import DatabaseProblem


def back_up(source: Path, target: Path) -> None:
    """Copy the database in its present state to a new file. The copy is complete and durable; writers continue.

    Raises:
        DatabaseProblem: there is no such database, the target exists already, or it cannot be written.
    """
    if not source.exists():
        raise DatabaseProblem(f"there is no database at {source}")
    # Copied under another name, so that an incomplete copy never has the name of a backup.
    fresh = target.with_name(f".{target.name}.unfinished")
    try:
        fresh.unlink(missing_ok=True)
        # SQLite would create the file readable for all users. `O_EXCL` refuses a link that another user put there.
        os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(source, fresh)
        # A link and not a rename, which could replace an earlier backup.
        os.link(fresh, target)
        _make_durable(target.parent)  # a power cut could otherwise lose the new name of the file
    except FileExistsError:
        raise DatabaseProblem(f"{target} exists already: choose another name for the backup") from None
    except OSError as error:
        raise DatabaseProblem(f"{target} cannot be written: {error.strerror}") from None
    except apsw.Error as error:
        raise DatabaseProblem(f"{source} cannot be copied to {target}: {type(error).__name__}") from None
    finally:
        # An error here, e.g. in a folder that cannot be written, would hide the problem with its advice.
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    reading = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)  # may need to create the log's index
    try:
        # A checkpoint by this connection would compete with the checkpoints of the sidecar.
        reading.wal_autocheckpoint(0)
        writing = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            with writing.backup("main", reading, "main") as copying:
                copying.step()  # everything in one step: in several, a commit in between would restart the copy
            writing.pragma("journal_mode", "DELETE")  # one file, without a log beside it
        finally:
            writing.close()
    finally:
        reading.close()
    # SQLite does not sync a copy by itself. Without this, a power failure could damage the backup.
    handle = os.open(target, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_durable(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
