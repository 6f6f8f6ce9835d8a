"""One statement at a time, over any free connection that reads."""

from datetime import timedelta
from typing import Any, Final, TypeVar

import asyncpg

from sidecar.adapters.postgresql import Connection, ConnectionLost, Connections, unavailable
from sidecar.adapters.postgresql.texts import restored
from sidecar.core.decoding import JsonDecoder
from sidecar.core.errors import RecordConflict, StoreUnavailable

Kind = TypeVar("Kind")

AGAIN: Final = timedelta(seconds=1)
CONFLICTS: Final = frozenset({"SR409", "23505"})
"""Ours, and a unique key that is taken: the step of another child."""


def decoded(decoder: JsonDecoder[Kind], text: str) -> Kind:
    """Return what a text of the database says."""
    return decoder.decode(restored(text))


def refusal(error: asyncpg.PostgresError, doing: str) -> RecordConflict | StoreUnavailable:
    """Return what to raise for a statement that the server refused."""
    if error.sqlstate not in CONFLICTS:
        return unavailable(error, doing)
    if error.sqlstate == "SR409":
        return RecordConflict(f"a record {error.args[0]}", metadata={"record_id": error.detail or ""})
    return RecordConflict("a record takes a step that another child has", metadata={})


class Asking:
    """Asks over `connections`. Every method raises `StoreUnavailable` if there is no answer."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections

    async def rows(self, sql: str, *values: Any, within: float | None = None) -> list[Any]:
        """Return the rows that a statement gives."""

        async def fetch(connection: Connection) -> list[Any]:
            return await connection.fetch(sql, *values)

        try:
            return await self.connections.run(fetch, within)
        except ConnectionLost:
            raise StoreUnavailable("PostgreSQL does not answer", retry_after=AGAIN) from None
        except asyncpg.PostgresError as error:
            raise refusal(error, "be asked") from None

    async def value(self, sql: str, *values: Any, within: float | None = None) -> Any:
        """Return the only value that a statement gives; None if it gives no row."""
        rows = await self.rows(sql, *values, within=within)
        return rows[0][0] if rows else None

    async def decoded(self, decoder: JsonDecoder[Kind], sql: str, *values: Any) -> Kind:
        """Return what the JSON says that a statement gives."""
        return decoded(decoder, await self.value(sql, *values))
