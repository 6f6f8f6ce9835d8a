"""The database port over PostgreSQL. See the rules in `sidecar.operations.record.ports`; the SQL keeps them."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import asyncpg

from sidecar.adapters.postgresql import Changes, Connection, ConnectionLost, Connections, Limits
from sidecar.adapters.record_postgresql.archive import ArchiveReads
from sidecar.adapters.record_postgresql.asking import Asking, refusal
from sidecar.adapters.record_postgresql.groups import group_json
from sidecar.adapters.record_postgresql.reads import RunningReads
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.ports import CommitUnknown

APPEND: Final = "select record_append($1, $2, $3, $4)"
RENEW: Final = """
with before as (select lease_until from instances where instance_id = $1)
insert into instances as kept (instance_id, started_at, lease_until)
values ($1, clock_timestamp(), clock_timestamp() + $2)
on conflict (instance_id) do update set lease_until = excluded.lease_until
returning coalesce((select lease_until < clock_timestamp() from before), false)
"""
RELEASE: Final = "update instances set lease_until = clock_timestamp() where instance_id = $1 returning true"
RELEASE_SECONDS: Final = 1.0
"""Longest that a database which does not answer holds up an end."""
CHANNEL: Final = "sidecar_record"
VERSION: Final = "select coalesce(sum(version), 0)::bigint from instance_heads"
REPEATED: Final = frozenset({"40P01", "40001"})
"""Deadlock, serialization failure: nothing of the statement is kept."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How the record is kept.

    Attributes:
        lease: how long this instance counts as alive after each renewal.
        reads: most connections for reading.
        anomaly: told the kind and details of what should not happen; must not raise.
    """

    limits: Limits = field(default_factory=Limits)
    lease: timedelta = timedelta(seconds=15)
    reads: int = 4
    anomaly: Callable[[str, str], None] = lambda _kind, _detail: None


class PostgresRecord(RunningReads, ArchiveReads):
    """One connection that writes, a few that read, one that listens.

    Attributes:
        lapses: how often the own lease was renewed after it had run out; others may have taken what was ours.
    """

    def __init__(self, dsn: str, instance: InstanceId, options: RecordOptions) -> None:
        """Begin without connections."""
        self.lapses = 0
        self._instance = instance
        self._options = options
        self._writer = Connections(dsn, 1, options.limits)
        self._readers = Connections(dsn, options.reads, options.limits)
        self._changes = Changes(dsn, CHANNEL, VERSION, options.limits)
        self._asking = Asking(self._readers)

    @property
    def instance(self) -> InstanceId:
        """Who appends."""
        return self._instance

    @property
    def limits(self) -> Limits:
        """As they were found to be needed, also for what else is kept in the database: behind a pooler, `pooled`."""
        return self._options.limits

    async def commit(self, records: Sequence[Record]) -> None:
        """Append one group. See the port."""
        if not records:
            return
        group = group_json(records)

        async def append(connection: Connection) -> None:
            await connection.execute(APPEND, self._instance, *group)

        try:
            try:
                await self._writer.run(append)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in REPEATED:
                    raise
                await self._writer.run(append)
        except ConnectionLost as lost:
            raise CommitUnknown(str(lost)) from None
        except asyncpg.PostgresError as error:
            raise refusal(error, "append to the record") from None
        self._changes.announce()

    async def renew_lease(self) -> None:
        """Say that this process is alive; counts and reports a lease that had run out. See the port."""
        if await self._asking.value(RENEW, self._instance, self._options.lease):
            self.lapses += 1
            self._options.anomaly("lease_lapsed", f"{self._instance} was taken for dead for a while")

    async def listen(self) -> None:
        """Tell subscribers of what is committed, by anybody; ends when the connection breaks: run it again."""
        await self._changes.run()

    def subscribed(self, changed: Callable[[], None]) -> AbstractContextManager[None]:
        """Have `changed` called soon after something was committed, while `listen` runs."""
        return self._changes.subscribed(changed)

    async def close(self) -> None:
        """Give everything back, the lease first: whoever goes on with what is left need not wait until it is over."""
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._asking.value(RELEASE, self._instance)
        self._changes.close()
        self._writer.close()
        self._readers.close()
