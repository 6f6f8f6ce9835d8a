"""Statements and transactions over a few connections, with what their failures mean for the caller."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from sidecar.adapters.postgresql import Connection, ConnectionLost, Connections, unavailable
from sidecar.core.errors import StoreUnavailable
from sidecar.operations.record.ports import CommitUnknown
from sidecar.operations.rollout.store.confirmed_writes import AGAIN

Result = TypeVar("Result")

REPEATED: Final = frozenset({"40P01", "40001"})
"""Deadlock, serialization failure: nothing of the transaction is kept."""


class Asking:
    """Reads over some connections, writes over one: a writer that waits for a lock holds up no read.

    Args:
        writer: one connection.
        readers: a few.
    """

    def __init__(self, writer: Connections, readers: Connections) -> None:
        self._writer = writer
        self._readers = readers

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
        """Do `work` in one transaction; what it raises undoes it.

        Raises:
            StoreUnavailable: nothing is kept.
            CommitUnknown: it may be kept or not.
        """

        async def transaction(connection: Connection) -> Result:
            async with connection.transaction():
                return await work(connection)

        try:
            try:
                return await self._writer.run(transaction)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in REPEATED:
                    raise
                return await self._writer.run(transaction)
        except ConnectionLost as lost:
            raise CommitUnknown(str(lost)) from None
        except asyncpg.PostgresError as error:
            raise unavailable(error, "keep a change of a rollout") from None
