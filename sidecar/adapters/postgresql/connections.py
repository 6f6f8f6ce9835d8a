"""A pool of connections to one PostgreSQL database. Every wait has a time limit, because a network can fail silently.

After any error except a refused statement, a connection is closed without waiting for it, and the next use opens
another one. If that fails, further uses are refused immediately, for an interval that grows up to one second.
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
"""Seconds between attempts to connect, at first and at most."""
SERVER_FIRST: Final = 0.8
"""The share of the local time limit after which the server cancels a statement. After a cancellation by the server it
is certain that nothing was stored; after the local limit it is unknown."""
APPLICATION: Final = "dispatch-sidecar"

TUNED: Final = """
select set_config('lock_timeout', $1, false), set_config('statement_timeout', $2, false),
  set_config('idle_in_transaction_session_timeout', $3, false), set_config('jit', 'off', false),
  set_config('synchronous_commit',
    case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end,
    false)
"""
"""Sets the time limits of a session, and makes commits durable even if the server's default is not durable.

These settings are not sent when the connection is opened, because connection poolers refuse settings that they do not
know.
"""
ARRAYS: Final = ("boolean", "integer", "bigint", "date", "timestamptz", "bytea", "jsonb")
"""Types whose arrays occur in statements."""
KNOW_ARRAYS: Final = f"select {', '.join(f'${place}::{name}[]' for place, name in enumerate(ARRAYS, 1))}"


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """The time limits, in seconds.

    Attributes:
        connect: to open a connection.
        statement: to get an answer. The server cancels a statement a little earlier.
        lock: to wait for a row that another transaction has locked.
        pooled: whether a connection pooler may be in between. Statements are then not prepared by name, because the
            next one may reach another connection of the server.
    """

    connect: float = 2.0
    statement: float = 5.0
    lock: float = 2.0
    pooled: bool = False


async def connected(dsn: str, limits: ConnectionTimeouts) -> Connection:
    """Open a connection and set its options.

    Raises:
        StoreUnavailable: the connection cannot be opened in time, or leads to a standby server, which refuses writes.
    """
    connection: Connection | None = None
    try:
        async with asyncio.timeout(limits.connect):
            connection = await asyncpg.connect(
                dsn,
                timeout=limits.connect,
                statement_cache_size=0 if limits.pooled else 100,
                # Nothing else, because poolers know these two settings and refuse most others.
                server_settings={"application_name": APPLICATION, "TimeZone": "UTC"},
            )
            at_the_server = SERVER_FIRST * limits.statement
            times = [str(round(seconds * 1000)) for seconds in (limits.lock, at_the_server, at_the_server)]
            await connection.execute(TUNED, *times)
            # For each connection: after a failover, the address may lead to a server that has become a standby.
            if await connection.fetchval("select pg_is_in_recovery()"):
                raise StoreUnavailable("PostgreSQL is a standby: name the primary", retry_after=AGAIN)
        if limits.pooled:
            # With a longer limit, because the query for types may be slow on a busy server.
            async with asyncio.timeout(limits.statement):
                await _know_arrays(connection)
        return connection
    except BaseException as error:
        if connection is not None:
            connection.terminate()  # `close` would wait for the server, which may not answer
        if isinstance(error, asyncpg.PostgresError):
            raise unavailable(error, "be connected to") from None
        if isinstance(error, BROKEN):
            raise StoreUnavailable("PostgreSQL cannot be reached", retry_after=AGAIN) from None
        raise


async def _know_arrays(connection: Connection) -> None:
    """Make the driver query the server for the types of arrays, which it does once for each connection.

    PostgreSQL compiles this query for seconds unless `jit` is off. Behind a pooler, a statement may reach a connection
    of the server on which `jit` is on. A transaction stays on one connection, so the query runs in a transaction that
    switches `jit` off.
    """
    await connection.execute("begin; set local jit = off")
    await connection.fetchrow(KNOW_ARRAYS, *(None for _ in ARRAYS))
    await connection.execute("commit")


class Connections:
    """A pool of at most `most` connections, which are opened when they are needed.

    Attributes:
        limits: the time limits of connections and statements.
    """

    def __init__(self, dsn: str, most: int, limits: ConnectionTimeouts) -> None:
        self.limits = limits
        self._dsn = dsn
        self._free = asyncio.Semaphore(most)  # counts uses and not connections: each use has one or opens one
        self._idle: list[Connection] = []
        self._used: dict[int, Connection] = {}  # by `id`; `close` ends these, too
        self._closed = False
        self._wait = FIRST_WAIT
        self._not_before = 0.0  # time of the event loop before which no connection is tried

    async def run(self, work: Callable[[Connection], Awaitable[Result]], within: float | None = None) -> Result:
        """Run `work` with a connection of its own.

        A connection is reused only after a complete answer. After a timeout, an answer may still arrive, and the next
        use would read it as its own.

        Args:
            work: executes one statement or more. It must end every transaction that it begins.
            within: the time limit of `work` in seconds; None: that of a statement.

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
            healthy = True  # a refusal is a complete answer
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
        self._idle.clear()  # connections in use are removed when their use ends

    async def _take(self) -> Connection:
        try:
            async with asyncio.timeout(self.limits.connect):
                # The limit of opening a connection also applies to this wait: in both cases the caller has none yet.
                await self._free.acquire()
        except TimeoutError:
            raise StoreUnavailable("every connection to PostgreSQL is busy", retry_after=AGAIN) from None
        try:
            connection = self._idle_connection() or await self._new_connection()
        except BaseException:
            self._free.release()
            raise
        self._used[id(connection)] = connection  # no await since the connection is there, so `close` misses none
        return connection

    def _idle_connection(self) -> Connection | None:
        while self._idle:
            # The connection that was used last: a pooler or firewall may have closed those that were idle for longer.
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _new_connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        if self.is_closed() or loop.time() < self._not_before:
            raise StoreUnavailable("PostgreSQL cannot be reached", retry_after=AGAIN)
        try:
            connection = await connected(self._dsn, self.limits)
        except StoreUnavailable:
            # For the whole pool: otherwise, while the server is down, each caller would wait for a connection in vain.
            self._not_before = loop.time() + self._wait
            self._wait = min(2 * self._wait, LONGEST_WAIT)
            raise
        # The pool was closed while this connection was being opened, so `close` did not know it.
        if self.is_closed():
            connection.terminate()
            raise StoreUnavailable("the sidecar stops", retry_after=AGAIN)
        self._wait = FIRST_WAIT
        return connection

    def _give_back(self, connection: Connection, *, healthy: bool) -> None:
        self._used.pop(id(connection), None)
        # A transaction that `work` left open would keep its locks, and the next use would commit its changes.
        if healthy and not self._closed and not connection.is_closed() and not connection.is_in_transaction():
            self._idle.append(connection)
        else:
            connection.terminate()
        self._free.release()
