"""The port of rollouts over the PostgreSQL database of the record."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sidecar.adapters.postgresql import Changes, Connection, Connections, ConnectionTimeouts, StatementExecutor
from sidecar.adapters.postgresql.texts import unescape_nul
from sidecar.adapters.rollout_postgresql import writing
from sidecar.adapters.rollout_postgresql.rows import all_kept, audit_row, body, kept
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.rollout.audit.retention import OldAudit
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.confirmed_writes import ConfirmedRollouts, confirmed
from sidecar.operations.rollout.store.encoding import ANSWERS, DEFINITIONS, FLAGS, MARKERS, PINNED, ROLLOUTS
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow, KeptDefinition, StoredAnswer, StoredFlag
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica
from sidecar.operations.rollout.store.store_rules import ALIVE_FOR, LISTED_FOR

CHANNEL: Final = "sidecar_rollouts"
VERSION: Final = "select version from rollout_version"
LINKED: Final = """
select number, slot, kind, body, link from rollout_audit where number > $1 order by number limit $2
"""
CHANGED: Final = "select version + last_number from rollout_version"
"""What hints are given for: audit rows, too."""
READERS: Final = 2
SAID_AGAIN_AFTER: Final = timedelta(seconds=2)
"""A replica that still shows the same version writes so, and which turns it has bound by now, only this often."""

AUDIT: Final = """
select a.number, a.slot, a.kind, a.body, t.effective_at, u.number is null as exported
from rollout_audit a left join rollout_transitions t using (number) left join rollout_unexported u using (number)
where a.number > $1 and ($2::text is null or a.slot = $2) and ($3::text is null or a.definition_id = $3)
  and ($4::timestamptz is null or a.at >= $4)
order by a.number limit $5
"""
UNEXPORTED: Final = """
select a.number, a.slot, a.kind, a.body, t.effective_at, false as exported
from rollout_unexported u join rollout_audit a using (number) left join rollout_transitions t using (number)
order by number limit $1
"""
EXPORTED: Final = """
delete from rollout_unexported where number in
  (select number from rollout_unexported where number = any($1::bigint[]) order by number for update)
"""
SHOW: Final = """
insert into rollout_replicas as kept values ($1, $2, $3, clock_timestamp(), $5)
on conflict (instance_id) do update set version = excluded.version, seen_at = excluded.seen_at,
  heard_at = excluded.heard_at, pinned = excluded.pinned
where kept.version <> excluded.version or kept.heard_at < clock_timestamp() - $4::interval
returning 1
"""
FORGET: Final = "delete from rollout_replicas where heard_at < clock_timestamp() - $1::interval"
REPLICAS: Final = """
select instance_id, version, seen_at, heard_at >= clock_timestamp() - $1::interval as alive, pinned
from rollout_replicas where heard_at >= clock_timestamp() - $2::interval order by instance_id
"""


class PostgresRollouts(ConfirmedRollouts):
    """Rollouts over one connection that writes and one that listens. The schema is the record's: open that first.

    The database's clock decides which replicas are alive.

    Args:
        dsn: as libpq takes it.
        instance: of this process; a new one at each start.
        limits: as the record has them.
        readers: the record's, so that a sidecar has fewer connections; its owner closes it. None: two of its own.
    """

    def __init__(
        self, dsn: str, instance: InstanceId, limits: ConnectionTimeouts, readers: Connections | None = None
    ) -> None:
        """Begin without connections."""
        super().__init__(instance, writing)
        self._writer = Connections(dsn, 1, limits)
        self._own_readers = Connections(dsn, READERS, limits) if readers is None else None
        self._asking = StatementExecutor(
            self._writer, readers or self._own_readers or self._writer, "keep a change of a rollout"
        )
        self._changes = Changes(dsn, CHANNEL, CHANGED, limits)
        self._subscriptions = ExitStack()

    async def version(self) -> int:
        """Return the newest version."""
        version: int = await self._asking.value(VERSION)
        return version

    def on_change(self, tell: Callable[[], None]) -> None:
        """Register `tell`, which is called soon after each committed change while `listen` runs."""
        self._subscriptions.enter_context(self._changes.subscribed(tell))

    async def listen(self) -> None:
        """Report committed changes of all replicas. Ends when the connection breaks; run it again then."""
        await self._changes.run()

    async def close(self) -> None:
        """Give everything back."""
        self._subscriptions.close()
        self._changes.close()
        self._writer.close()
        if self._own_readers is not None:
            self._own_readers.close()

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        return all_kept(ROLLOUTS, await self._asking.rows("select body from rollouts order by slot"))

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""
        return kept(ROLLOUTS, await self._asking.value("select body from rollouts where slot = $1", slot))

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return the stored answer to a request."""
        return kept(ANSWERS, await self._asking.value(writing.ANSWER, request_id))

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        wanted = (query.after, query.slot, query.definition_id, query.since, query.limit)
        return [audit_row(row) for row in await self._asking.rows(AUDIT, *wanted)]

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that have not been handed on, oldest first."""
        return [audit_row(row) for row in await self._asking.rows(UNEXPORTED, limit)]

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that rows have been handed on."""
        numbers = [row.number for row in rows]
        await confirmed(partial(self._executed, EXPORTED, numbers))

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a kept definition."""
        asked = "select body from kept_definitions where digest = $1"
        return kept(DEFINITIONS, await self._asking.value(asked, digest))

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the embedded flags, by name."""
        return all_kept(FLAGS, await self._asking.rows("select body from rollout_flags order by name"))

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Publish the version and the bound turns of this replica, and remove replicas that were silent for long."""

        async def said(connection: Connection) -> None:
            if await connection.fetchval(SHOW, self._instance, version, at, SAID_AGAIN_AFTER, body(pinned.turns)):
                await connection.execute(FORGET, max(LISTED_FOR, pinned.lasting + ALIVE_FOR))

        await confirmed(partial(self._asking.write, said))

    async def replicas(self) -> Sequence[Replica]:
        """Return the replicas that have published recently, by id."""
        return await self._said(LISTED_FOR)

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last publication of each other replica."""
        return [each for each in await self._said(within) if each.instance != self._instance]

    # --- retention

    async def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the rows that may be removed."""
        return await confirmed(partial(self._asking.write, partial(writing.old_audit, before=before)))

    async def audit_head(self) -> AuditHead:
        """Return the head of the audit's chain."""
        ((number, link),) = await self._asking.rows("select last_number, last_link from rollout_version")
        return AuditHead(number, link)

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows of the audit with their links."""
        rows = await self._asking.rows(LINKED, after, limit)
        return [LinkedRow(number, slot, kind, unescape_nul(text), link) for number, slot, kind, text, link in rows]

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return every marker, oldest first."""
        rows = await self._asking.rows("select body from rollout_audit_markers order by number")
        return tuple(all_kept(MARKERS, rows))

    async def _said(self, within: timedelta) -> Sequence[Replica]:
        rows = await self._asking.rows(REPLICAS, ALIVE_FOR, within)
        return [Replica(InstanceId(row[0]), row[1], row[2], alive=row[3], pinned=PINNED.decode(row[4])) for row in rows]

    async def _executed(self, sql: str, *values: object) -> None:
        async def execute(connection: Connection) -> None:
            await connection.execute(sql, *values)

        await self._asking.write(execute)

    async def _flag(self, name: str) -> StoredFlag | None:
        return kept(FLAGS, await self._asking.value(writing.FLAG, name))

    async def _transaction(self, work: Callable[[Connection], Awaitable[Any]]) -> Any:
        return await self._asking.write(work)

    def _changed(self) -> None:
        self._changes.announce()
