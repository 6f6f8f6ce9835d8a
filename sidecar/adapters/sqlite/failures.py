"""What errors of SQLite mean for whoever asked. Their text stays here: it may hold paths and contents."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import apsw

from sidecar.core.errors import StoreUnavailable

AGAIN: Final = timedelta(seconds=1)

MEANING: Final[Mapping[type[apsw.Error], str]] = MappingProxyType(
    {
        apsw.FullError: "the disk is full: make room, the sidecar goes on by itself",
        apsw.IOError: "the disk does not read or write",
        apsw.BusyError: "another process holds the database file",
        apsw.LockedError: "another process holds the database file",
        apsw.InterruptError: "it took too long",
        apsw.CorruptError: "the database file is damaged: stop the sidecar and restore a backup",
        apsw.NotADBError: "the database file is damaged: stop the sidecar and restore a backup",
        apsw.ReadOnlyError: "the database file cannot be written",
        apsw.CantOpenError: "the database file cannot be opened",
        apsw.PermissionsError: "the database file cannot be opened",
        apsw.NoMemError: "there is no memory left",
    }
)
"""Errors of the surroundings. Any other is a defect of the statement, and goes its way as it is."""

HARMLESS: Final = (apsw.FullError, apsw.BusyError, apsw.LockedError, apsw.InterruptError)
"""After these a connection can go on. After others it is closed: what a failed fsync has written is not known, and the
next fsync of the same handle would say that all is well."""


def unavailable(error: apsw.Error, doing: str) -> StoreUnavailable | None:
    """Return what to say to the caller; None if the error is a defect of ours."""
    meaning = next((text for kind, text in MEANING.items() if isinstance(error, kind)), None)
    return None if meaning is None else StoreUnavailable(f"cannot {doing}: {meaning}", retry_after=AGAIN)
