"""Runs statements over a few connections, and maps their failures for the caller."""

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
"""Deadlock, serialization failure: nothing of the transaction is kept."""
TRIES: Final = 3


class StatementExecutor:
    """Reads over some connections, writes over one: a writer that waits for a lock holds up no read.

    Args:
        writer: one connection.
        readers: a few.
        writing: what cannot be done when a write is refused, such as `keep a change`.
    """

    def __init__(self, writer: Connections, readers: Connections, writing: str) -> None:
        self._writer = writer
        self._readers = readers
        self._writing = writing

    async def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows that a statement gives, which only reads. Raises `StoreUnavailable`."""

        async def fetch(connection: Connection) -> list[Any]:
            return await connection.fetch(sql, *values)

        try:
            return await self._readers.run(fetch)
        except ConnectionLost:
            raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN) from None
        except asyncpg.PostgresError as error:
            raise unavailable(error, "be asked") from None

    async def value(self, sql: str, *values: Any) -> Any:
        """Return the only value that a statement gives; None if it gives no row."""
        rows = await self.rows(sql, *values)
        return rows[0][0] if rows else None

    async def write(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run `work` in one transaction; an exception rolls it back. See `commit` for the exceptions."""

        async def transaction(connection: Connection) -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self.commit(transaction)

    async def commit(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do `work`, which is one transaction, with the connection that writes.

        Raises:
            StoreUnavailable: nothing is kept.
            CommitUnknown: it may be kept or not.
        """
        tries = 0
        while True:
            tries += 1
            try:
                return await self._writer.run(work)
            except ConnectionLost as lost:
                raise CommitUnknown(str(lost)) from None
            except asyncpg.PostgresError as error:
                if error.sqlstate not in REPEATED or tries == TRIES:
                    raise unavailable(error, self._writing) from None


async def run(fetch: Callable[..., Any], steps: Steps[Result]) -> Result:
    """Do work, statement after statement, with a function that runs one and returns its rows."""
    rows: Any = None
    while True:
        try:
            sql, *values = steps.send(rows)
        except StopIteration as end:
            result: Result = end.value
            return result
        found = await fetch(sql, *(_storable(each) if isinstance(each, str) else each for each in values))
        rows = [[unescape_nul(each) if isinstance(each, str) else each for each in row] for row in found]


def _storable(text: str) -> str:
    """Return a text as PostgreSQL can store it. U+0000 is kept in JSON text; in any other text it is replaced."""
    return escape_nul(text).replace("\0", "\ufffd")
