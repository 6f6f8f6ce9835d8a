"""Translates errors of PostgreSQL. Their text is not passed on, because it may contain names and contents."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Final

import asyncpg

from sidecar.core.errors import StoreUnavailable

AGAIN: Final = timedelta(seconds=1)
"""The delay before a retry that callers are told."""

MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "53100": "its disk is full: free space, and the sidecar resumes by itself",
        "53300": "it takes no more connections",
        "57014": "it took too long",
        "55P03": "another transaction holds a lock",
        "25006": "it is a standby, or read-only: name the primary",
        "28000": "it does not let this user in",
        "28P01": "it does not let this user in",
        "3D000": "there is no such database",
        "42501": "this user lacks a right: see docs/postgresql.md",
        "42P01": "its schema is not that of this sidecar",
        "42883": "its schema is not that of this sidecar",
    }
)
"""By SQLSTATE."""
MEANING_OF_CLASS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "08": "the connection broke",
        "40": "others write the same rows",
        "53": "it has no resources left",
        "57": "it is being stopped, or started",
        "58": "its machine fails",
        "XX": "it is damaged",
    }
)
"""By the first two characters of the SQLSTATE, for codes that are not in `MEANING`."""
BROKEN: Final = (TimeoutError, OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""Exceptions of a statement whose connection breaks; the last one, if it breaks between two messages."""
LOST: Final = frozenset({"40003", "57P01", "57P02", "57P03", "57P05", "25P03"})
"""SQLSTATEs after which the server closes the connection, or, for 40003, does not know the result itself."""


class ConnectionLost(Exception):
    """There was no answer: the statement may have been executed or not, or may still run."""


def is_lost(error: asyncpg.PostgresError) -> bool:
    """Return whether the result of the statement is unknown after an error of the server."""
    code = error.sqlstate or ""
    # Any other error of the server guarantees that the transaction was rolled back.
    return code in LOST or code.startswith("08")


def unavailable(error: asyncpg.PostgresError, doing: str) -> StoreUnavailable:
    """Return the error for the caller of a refused statement."""
    code = error.sqlstate or ""
    meaning = MEANING.get(code) or MEANING_OF_CLASS.get(code[:2]) or f"it refuses the statement (SQLSTATE {code})"
    return StoreUnavailable(f"PostgreSQL cannot {doing}: {meaning}", retry_after=AGAIN)
