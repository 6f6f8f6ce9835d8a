"""Listens to what SQLite is told to do, on all connections that are opened meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw


@contextmanager
def heard_statements() -> Iterator[list[str]]:
    """Give the list to which every statement is added; it may be cleared."""
    heard: list[str] = []

    def listen(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, lambda said: heard.append(said["sql"]))

    apsw.connection_hooks.append(listen)
    try:
        yield heard
    finally:
        apsw.connection_hooks.remove(listen)
