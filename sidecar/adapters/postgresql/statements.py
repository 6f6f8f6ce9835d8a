"""Runs SQL statements over a few connections, and converts failures to errors that say whether anything was stored."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from sidecar.adapters.postgresql.connections import Connection, Connections
from sidecar.adapters.postgresql.failures import AGAIN, ConnectionLost, unavailable
from sidecar.adapters.postgresql.texts import escape_nul, unescape_nul
from sidecar.adapters.statements import Steps
from sidecar.core.errors import StoreUnavailable
from sidecar.operations.record.ports import CommitUnknown

Result = TypeVar("Result")

REPEATED: Final = frozenset({"40P01", "40001"})
"""SQL states of a deadlock and of a serialization failure, after which nothing of the transaction was stored."""
TRIES: Final = 3
"""Maximum number of attempts of a transaction that fails with one of these states."""


class StatementExecutor:
    """Reads over some connections and writes over another, so that a write that waits for a lock delays no read.

    Args:
        writer: one connection.
        readers: a few connections.
        writing: the name of the operation that writes, for messages, e.g. `keep a change`.
    """

    def __init__(self, writer: Connections, readers: Connections, writing: str) -> None:
        self._writer = writer
        self._readers = readers
        self._writing = writing

    async def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a read-only statement. Raises `StoreUnavailable`."""

        async def fetch(connection: Connection) -> list[Any]:
            return await connection.fetch(sql, *values)

        try:
            return await self._readers.run(fetch)
        except ConnectionLost:
            raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN) from None
        except asyncpg.PostgresError as error:
            raise unavailable(error, "be asked") from None

    async def value(self, sql: str, *values: Any) -> Any:
        """Return the first value of the first row of a read-only statement; None if there is no row."""
        rows = await self.rows(sql, *values)
        return rows[0][0] if rows else None

    async def write(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run `work` in one transaction, which an exception rolls back. Raises the errors of `commit`."""

        async def transaction(connection: Connection) -> Result:
            # At READ COMMITTED, the server's default. Work that compares before it writes takes a lock first.
            async with connection.transaction():
                return await work(connection)

        return await self.commit(transaction)

    async def commit(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run `work`, which is one transaction, with the writing connection.

        Raises:
            StoreUnavailable: nothing was stored.
            CommitUnknown: the connection broke, so it is unknown whether the transaction was stored.
        """
        tries = 0
        while True:
            tries += 1
            try:
                return await self._writer.run(work)
            # Not repeated here: the transaction may have been committed. Only the caller knows whether a repetition
            # would be a second change.
            except ConnectionLost as lost:
                raise CommitUnknown(str(lost)) from None
            except asyncpg.PostgresError as error:
                # Only errors that guarantee a rollback of the whole transaction are repeated.
                if error.sqlstate not in REPEATED or tries == TRIES:
                    raise unavailable(error, self._writing) from None


async def run(fetch: Callable[..., Any], steps: Steps[Result]) -> Result:
    """Run a generator of statements, and return its result.

    Args:
        fetch: executes one statement with its values, and returns the rows.
        steps: yields the statements with their values, and receives the rows of each.
    """
    rows: Any = None  # a generator accepts only None before its first `yield`
    while True:
        try:
            sql, *values = steps.send(rows)
        except StopIteration as end:
            result: Result = end.value
            return result
        raw_rows = await fetch(sql, *(_storable(each) if isinstance(each, str) else each for each in values))
        rows = [[unescape_nul(each) if isinstance(each, str) else each for each in row] for row in raw_rows]


def _storable(text: str) -> str:
    """Return a text that PostgreSQL can store: U+0000 is escaped in JSON, and replaced in any other text."""
    return escape_nul(text).replace("\0", "\ufffd")
