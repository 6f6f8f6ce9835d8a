"""The journal (append-only log of facts) in PostgreSQL.

One statement compares an append with the head of its turn, i.e. its newest version, and updates the head.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from typing import Final

from msgspec import Struct, field

from sidecar.adapters.postgresql import Connections, ConnectionTimeouts, StatementExecutor
from sidecar.adapters.record_postgresql.appending import append
from sidecar.adapters.record_postgresql.erasing import PostgresErasing
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import TurnAppend

RENEW: Final = """
with before as (
  select lease_until from instances where instance_id = $1
), appends as (
  insert into instance_heads (instance_id) values ($1) on conflict do nothing
)
insert into instances as kept (instance_id, started_at, lease_until)
values ($1, clock_timestamp(), clock_timestamp() + $2)
on conflict (instance_id) do update set lease_until = excluded.lease_until
returning coalesce((select lease_until < clock_timestamp() from before), false), (now() at time zone 'UTC')::date
"""
"""Renews the lease, or registers a new instance. Returns whether the lease had expired before, and the present day."""
AHEAD: Final = "select journal_partition($1::date + days) from generate_series(0, 1) days"
"""Creates the partitions of a day and of the next one."""
FORGET_INSTANCES: Final = "select journal_forget_instances()"
RELEASE: Final = "update instances set lease_until = clock_timestamp() where instance_id = $1 returning true"
RELEASE_SECONDS: Final = 1.0
"""The longest time for which an unresponsive database delays the end of the process."""


class JournalOptions(Struct, frozen=True):
    """The options of the journal.

    Attributes:
        lease: how long this instance counts as alive after each renewal.
        reads: the most connections for reading.
        anomaly: receives kind and details of unexpected events; must not raise.
    """

    limits: ConnectionTimeouts = field(default_factory=ConnectionTimeouts)
    lease: timedelta = timedelta(seconds=15)
    reads: int = 4
    anomaly: Callable[[str, str], None] = lambda _kind, _detail: None


class PostgresJournal(PostgresErasing):
    """The journal over one connection that writes and a few that read.

    Attributes:
        lapses: how often the lease was renewed after it had expired. Others may then have taken over dispatches.
        limits: the limits of connections, also for other data in the database; `pooled` behind a pooler.
    """

    waits = True  # an append waits for the network
    shared = True  # other sidecars may append, so a turn in memory may be outdated

    def __init__(self, dsn: str, instance: InstanceId, options: JournalOptions) -> None:
        """Begin without connections."""
        self.lapses = 0
        self.limits = options.limits
        self._instance = instance
        self._options = options
        # One writing connection: appends of one instance must become visible in the order of their numbers. Reads have
        # their own, so that a slow list does not delay an append.
        self._writer = Connections(dsn, 1, options.limits)
        self._readers = Connections(dsn, options.reads, options.limits)
        self._statements = StatementExecutor(self._writer, self._readers, "append to the record")
        self._made_ready: date | None = None
        """The last day, by the database's clock, for which partitions were created ahead."""

    @property
    def readers(self) -> Connections:
        """The reading connections, also for other data in the database."""
        return self._readers

    @property
    def instance(self) -> InstanceId:
        """The appending instance."""
        return self._instance

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Write decided appends. See the port."""
        # One statement, so it is one transaction without a round trip for BEGIN and COMMIT. At READ COMMITTED the
        # comparison with the head is repeated on the present row after a wait for its lock, so no stricter isolation is
        # needed.
        stored = await self._statements.commit(partial(append, instance=self._instance, appends=appends))
        return [each.turn_id in stored for each in appends]

    async def renew_lease(self) -> None:
        """Renew the lease of this process; count and report a lease that had expired. See the port.

        Partitions are created a day ahead, so that no append has to; instances without facts are removed.
        """
        ((lapsed, today),) = await self._statements.rows(RENEW, self._instance, self._options.lease)
        # The database decides by its own clock whether the lease had run out, in the statement that renews it. A local
        # clock could hide a pause of this process.
        if lapsed:
            self.lapses += 1
            self._options.anomaly("lease_lapsed", f"{self._instance} was taken for dead for a while")
        if today != self._made_ready:
            try:
                await self._statements.rows(AHEAD, today)
                await self._statements.rows(FORGET_INSTANCES)
                # Set only after both statements: if one fails, the next renewal tries again.
                self._made_ready = today
            except StoreUnavailable as refused:  # then the first append of a day creates its partitions
                self._options.anomaly("record_partitions", f"none made ahead: {refused.message}")

    async def close(self) -> None:
        """Release everything, the lease first, so that a takeover need not wait until the lease expires."""
        # An error is ignored: the lease then expires by itself, and only the takeover begins later.
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._statements.value(RELEASE, self._instance)
        self._writer.close()
        self._readers.close()
