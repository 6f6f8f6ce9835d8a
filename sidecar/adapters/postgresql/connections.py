"""Holds a few connections to one PostgreSQL database. Every wait has a time limit here: a network can fail silently.

A connection with any error except a failed statement is dropped immediately and never waited for; the next use opens
another one. While that fails, uses are refused immediately, for a growing interval of at most one second.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import asyncpg

from sidecar.adapters.postgresql.failures import AGAIN, BROKEN, ConnectionLost, is_lost, unavailable
from sidecar.core.errors import StoreUnavailable

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection  # generic for type checkers only
Result = TypeVar("Result")

FIRST_WAIT: Final = 0.05
LONGEST_WAIT: Final = 1.0
"""Seconds between attempts to connect."""
SERVER_FIRST: Final = 0.8
"""The share of the local limit after which the server cancels a statement. If the server cancels it, it is certain that
nothing was stored; if the local limit ends it, that is unknown."""
APPLICATION: Final = "dispatch-sidecar"

TUNED: Final = """
select set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),
  set_config('idle_in_transaction_session_timeout', $3, false), set_config('jit', 'off', false),
  set_config('synchronous_commit',
    case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end,
    false)
"""
"""Settings of a session: limits, and a durable commit even if the server's default is not durable.

They are not sent with the start of the connection, because poolers refuse start-up settings that they do not know.
"""
ARRAYS: Final = ("boolean", "integer", "bigint", "date", "timestamptz", "bytea", "jsonb")
"""Types whose arrays occur in statements."""
KNOW_ARRAYS: Final = f"select {', '.join(f'${place}::{name}[]' for place, name in enumerate(ARRAYS, 1))}"


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """The time limits, in seconds.

    Attributes:
        connect: for opening a connection.
        statement: for an answer; a working server cancels a little earlier.
        lock: for a row that another transaction has locked.
        pooled: whether a pooler may be in between. Statements are then not prepared by name, because the next one may
            reach another connection of the server.
    """

    connect: float = 2.0
    statement: float = 5.0
    lock: float = 2.0
    pooled: bool = False


async def connected(dsn: str, limits: ConnectionTimeouts) -> Connection:
    """Open a connection with all its settings.

    Raises:
        StoreUnavailable: it cannot be opened in time, or leads to a standby.
    """
    connection: Connection | None = None
    try:
        async with asyncio.timeout(limits.connect):
            connection = await asyncpg.connect(
                dsn,
                timeout=limits.connect,
                statement_cache_size=0 if limits.pooled else 100,
                server_settings={"application_name": APPLICATION, "TimeZone": "UTC"},
            )
            at_the_server = SERVER_FIRST * limits.statement
            times = [str(round(seconds * 1000)) for seconds in (limits.lock, at_the_server, at_the_server)]
            await connection.execute(TUNED, *times)
            if await connection.fetchval("select pg_is_in_recovery()"):
                raise StoreUnavailable("PostgreSQL is a standby: name the primary", retry_after=AGAIN)
        if limits.pooled:
            async with asyncio.timeout(limits.statement):
                await _know_arrays(connection)
        return connection
    except BaseException as error:
        if connection is not None:
            connection.terminate()
        if isinstance(error, asyncpg.PostgresError):
            raise unavailable(error, "be connected to") from None
        if isinstance(error, BROKEN):
            raise StoreUnavailable("PostgreSQL cannot be reached", retry_after=AGAIN) from None
        raise


async def _know_arrays(connection: Connection) -> None:
    """Let the driver query the server for the types of arrays, which it does once for each connection.

    PostgreSQL compiles this query for seconds unless `jit` is off. Behind a pooler, any statement may reach a server
    connection on which it is on, so the driver asks here, in a transaction, which stays on one connection.
    """
    await connection.execute("begin; set local jit = off")
    await connection.fetchrow(KNOW_ARRAYS, *(None for _ in ARRAYS))
    await connection.execute("commit")


class Connections:
    """A pool of at most `most` connections, which are opened on demand.

    Attributes:
        limits: of every connection and statement.
    """

    def __init__(self, dsn: str, most: int, limits: ConnectionTimeouts) -> None:
        self.limits = limits
        self._dsn = dsn
        self._free = asyncio.Semaphore(most)
        self._idle: list[Connection] = []
        self._used: dict[int, Connection] = {}
        self._closed = False
        self._wait = FIRST_WAIT
        self._not_before = 0.0

    async def run(self, work: Callable[[Connection], Awaitable[Result]], within: float | None = None) -> Result:
        """Run `work` with a connection of its own.

        A connection is reused only after a complete answer. After a timeout or a broken exchange an answer may still be
        in flight, and the next user would read it as its own.

        Args:
            work: one statement or more. It must end every transaction that it begins.
            within: seconds for `work`; default: the statement timeout.

        Raises:
            StoreUnavailable: there is no connection; `work` has not begun.
            ConnectionLost: the connection broke, or the time ran out; it is unknown whether the statement took effect.
            asyncpg.PostgresError: the server refused the statement.
        """
        connection = await self._take()
        healthy = False
        try:
            async with asyncio.timeout(within or self.limits.statement):
                result = await work(connection)
            healthy = True
        except asyncpg.PostgresError as error:
            if is_lost(error):
                raise ConnectionLost("the server has ended the connection") from None
            healthy = True
            raise
        except BROKEN as error:
            raise ConnectionLost(f"no answer: {type(error).__name__}") from None
        else:
            return result
        finally:
            self._give_back(connection, healthy=healthy)

    def is_closed(self) -> bool:
        """Return whether the pool is closed."""
        return self._closed

    def close(self) -> None:
        """Close every connection immediately; running uses end with `ConnectionLost`."""
        self._closed = True
        for connection in [*self._idle, *self._used.values()]:
            connection.terminate()
        self._idle.clear()

    async def _take(self) -> Connection:
        try:
            async with asyncio.timeout(self.limits.connect):
                # Waiting for a place is limited like connecting: both mean that the caller has no connection.
                await self._free.acquire()
        except TimeoutError:
            raise StoreUnavailable("every connection to PostgreSQL is busy", retry_after=AGAIN) from None
        try:
            connection = self._an_idle_one() or await self._another()
        except BaseException:
            self._free.release()
            raise
        self._used[id(connection)] = connection
        return connection

    def _an_idle_one(self) -> Connection | None:
        while self._idle:
            # The last one that was returned: the others can go idle and be closed by a pooler or a firewall.
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _another(self) -> Connection:
        loop = asyncio.get_running_loop()
        if self.is_closed() or loop.time() < self._not_before:
            raise StoreUnavailable("PostgreSQL cannot be reached", retry_after=AGAIN)
        try:
            connection = await connected(self._dsn, self.limits)
        except StoreUnavailable:
            # Backoff per pool: otherwise each caller would wait for its own connect timeout while the server is down.
            self._not_before = loop.time() + self._wait
            self._wait = min(2 * self._wait, LONGEST_WAIT)
            raise
        if self.is_closed():
            connection.terminate()
            # The pool was closed while this connection was being opened, so `close` has not seen it.
            raise StoreUnavailable("the sidecar stops", retry_after=AGAIN)
        self._wait = FIRST_WAIT
        return connection

    def _give_back(self, connection: Connection, *, healthy: bool) -> None:
        self._used.pop(id(connection), None)
        # A transaction that `work` left open would keep its locks, and its changes would join those of the next use.
        if healthy and not self._closed and not connection.is_closed() and not connection.is_in_transaction():
            self._idle.append(connection)
        else:
            connection.terminate()
        self._free.release()
