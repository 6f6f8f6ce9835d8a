"""The rollout store in the PostgreSQL database of the record, which the sidecars of all replicas share."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sidecar.adapters.postgresql import Changes, Connection, Connections, ConnectionTimeouts, StatementExecutor
from sidecar.adapters.postgresql.statements import run
from sidecar.adapters.rollout_tables import TabledRollouts
from sidecar.adapters.statements import Steps
from sidecar.core.identifiers import InstanceId
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import PINNED, text_of
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica
from sidecar.operations.rollout.store.store_rules import ALIVE_FOR, LISTED_FOR

CHANNEL: Final = "sidecar_rollouts"
CHANGED: Final = "select version + last_number from rollout_version"
"""Reads a number that every commit increases, even one that only adds audit rows."""
READERS: Final = 2
"""Number of connections for reads, if the record's are not used."""
PUBLISH_INTERVAL: Final = timedelta(seconds=2)
"""The interval at which a replica publishes its version and its pinned turns while the version does not change."""
SHOW: Final = """
insert into rollout_replicas as kept values ($1, $2, $3, clock_timestamp(), $5)
on conflict (instance_id) do update set version = excluded.version, seen_at = excluded.seen_at,
  heard_at = excluded.heard_at, pinned = excluded.pinned
where kept.version <> excluded.version or kept.heard_at < clock_timestamp() - $4::interval
returning 1
"""
"""Publishes the state of a replica. `seen_at` is the time by the clock of the replica, for display; `heard_at` is the
time by the clock of the database, which decides whether the replica is alive.
"""
FORGET: Final = "delete from rollout_replicas where heard_at < clock_timestamp() - $1::interval"
REPLICAS: Final = """
select instance_id, version, seen_at, heard_at >= clock_timestamp() - $1::interval as alive, pinned
from rollout_replicas where heard_at >= clock_timestamp() - $2::interval order by instance_id
"""
Result = TypeVar("Result")


class PostgresRollouts(TabledRollouts):
    """Implements `RolloutStore`. The record creates its tables, so open the record first.

    The clock of the database decides which replicas are alive, because the clocks of the replicas may differ.

    Args:
        dsn: the address of the database, a URL.
        instance: the id of this process, which is new at each start.
        limits: time limits of connections and statements.
        readers: the connections with which the record reads, so that a sidecar has fewer connections. They are not
            closed with this store. None: it has `READERS` connections of its own.
    """

    def __init__(
        self, dsn: str, instance: InstanceId, limits: ConnectionTimeouts, readers: Connections | None = None
    ) -> None:
        """Begin without connections."""
        super().__init__(instance)
        # One writing connection: all changes of rollouts lock the same row, so a second connection would only wait.
        self._writer = Connections(dsn, 1, limits)
        self._own_readers = Connections(dsn, READERS, limits) if readers is None else None
        self._statements = StatementExecutor(
            self._writer, readers or self._own_readers or self._writer, writing="keep a change of a rollout"
        )
        self._changes = Changes(dsn, CHANNEL, CHANGED, limits)
        self._subscriptions = ExitStack()  # ends every subscription of `on_change` when the store is closed

    def on_change(self, tell: Callable[[], None]) -> None:
        """Register `tell`, which is called soon after each committed change while `listen` runs."""
        self._subscriptions.enter_context(self._changes.subscribed(tell))

    async def listen(self) -> None:
        """Report committed changes of all replicas. Returns when the connection breaks; the caller calls it again."""
        await self._changes.run()

    async def close(self) -> None:
        """Release all connections."""
        self._subscriptions.close()
        self._changes.close()
        self._writer.close()
        if self._own_readers is not None:
            # Only the connections of this store. Those of the record may still be in use.
            self._own_readers.close()

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Publish the version and the pinned turns of this replica, and remove replicas that were silent for long.

        `at`: now, by the clock of this replica.
        """

        def publish_and_forget() -> Steps[None]:
            # `SHOW` writes no row while the version stays and `PUBLISH_INTERVAL` has not passed. This saves most
            # writes, because every replica calls this each second.
            if (yield (SHOW, self._instance, version, at, PUBLISH_INTERVAL, text_of(pinned.turns))):
                # A silent replica may have died. A decommission must know of its turns until all of them have ended:
                # each ends at most `lasting` after its bind, and the replica may have bound it up to `ALIVE_FOR` after
                # its last report.
                yield (FORGET, max(LISTED_FOR, pinned.lasting + ALIVE_FOR))

        # One transaction, repeated if the answer to its commit was lost. Readers are not notified: they
        # read these rows when they need them.
        await self._confirm(publish_and_forget)

    async def replicas(self) -> Sequence[Replica]:
        """Return the replicas that have published within `LISTED_FOR`, by id."""
        return await self._read(_published_within(LISTED_FOR))

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the other replicas that have published within a time, as they published last."""
        return [each for each in await self._read(_published_within(within)) if each.instance != self._instance]

    async def _read(self, steps: Steps[Result]) -> Result:
        return await run(self._statements.rows, steps)

    async def _transaction(self, work: Callable[[], Steps[Result]]) -> Result:
        async def transaction(connection: Connection) -> Result:
            # A new generator for each attempt: `write` repeats the transaction after a deadlock.
            return await run(connection.fetch, work())

        return await self._statements.write(transaction)

    def _notify_readers(self) -> None:
        # Readers in this process are told by the same connection as those in other processes.
        self._changes.announce()

    def _purge(self, marker: AuditMarker) -> Steps[None]:
        # A function with the rights of its owner: the sidecar's database user may not delete audit rows.
        yield ("select rollout_purge($1, $2, $3)", marker.number, marker.before, text_of(marker))

    def _time(self, value: Any) -> datetime:
        # Nothing to convert: the driver returns a `datetime`.
        time: datetime = value
        return time


def _published_within(within: timedelta) -> Steps[Sequence[Replica]]:
    rows = yield (REPLICAS, ALIVE_FOR, within)
    return [
        Replica(InstanceId(instance), version, seen_at, alive=alive, pinned=PINNED.decode(pinned))
        for instance, version, seen_at, alive, pinned in rows
    ]
