"""The port of rollouts over the SQLite file of the record."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import apsw

from sidecar.adapters.rollout_sqlite import reading, writing
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.audit.retention import OldAudit
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.confirmed_writes import ConfirmedRollouts, confirmed
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow, KeptDefinition, StoredAnswer, StoredFlag
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica
from sidecar.operations.rollout.store.store_rules import ALIVE_FOR, LISTED_FOR

SAID_AGAIN_AFTER: Final = timedelta(seconds=5)
"""Turns that are as many as before are written again only so often."""


class SqliteRollouts(ConfirmedRollouts):
    """Rollouts in one file, which this process alone has open.

    Args:
        engine: of the record's file; the caller that opened it closes it.
        instance: of this process; a new one at each start.
        clock: says whether this process counts as alive.
    """

    def __init__(self, engine: SqliteEngine, instance: InstanceId, clock: Clock) -> None:
        super().__init__(instance, writing)
        self._engine = engine
        self._clock = clock
        self._told: list[Callable[[], None]] = []
        self._shown: tuple[int, datetime] | None = None
        self._kept: tuple[PinnedTurnCount, datetime] | None = None

    async def version(self) -> int:
        """Return the newest version."""
        return await self._engine.read(reading.version_in)

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` after every change; no other process can make one."""
        self._told.append(tell)

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, by slot."""
        return await self._engine.read(reading.rollouts_in)

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout."""
        return await self._engine.read(partial(reading.rollout_in, slot=slot))

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return the stored answer to a request."""
        return await self._engine.read(partial(reading.answer_in, request_id=request_id))

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first."""
        return await self._engine.read(partial(reading.audit_in, query=query))

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return audit rows that have not been handed on, oldest first."""
        return await self._engine.read(partial(reading.unexported_in, limit=limit))

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that rows have been handed on."""
        await confirmed(partial(self._engine.write, partial(writing.exported, rows=rows)))

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a kept definition."""
        return await self._engine.read(partial(reading.definition_in, digest=digest))

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the embedded flags, by name."""
        return await self._engine.read(reading.flags_in)

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Publish the version that the binds of this process use, and the turns that it has bound.

        The version stays in memory, because every other process is dead. The turns are for the next process.
        """
        self._shown = (version, at)
        before, kept_at = self._kept or (NOTHING_PINNED, at)
        if before.turns != pinned.turns or (pinned.turns and at - kept_at >= SAID_AGAIN_AFTER):
            said = Replica(self._instance, version, at, alive=True, pinned=pinned.turns)
            work = partial(writing.show, said=said, forgotten=at - max(LISTED_FOR, pinned.lasting + ALIVE_FOR))
            await confirmed(partial(self._engine.write, work))
            self._kept = (pinned, at)

    async def replicas(self) -> Sequence[Replica]:
        """Return this process, if it has published recently."""
        if self._shown is None:
            return []
        (version, at), now = self._shown, self._clock.now()
        return [Replica(self._instance, version, at, alive=now - at <= ALIVE_FOR)] if now - at <= LISTED_FOR else []

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last publications of earlier processes with this file."""
        since = self._clock.now() - within
        said = await self._engine.read(partial(reading.replicas_in, since=since))
        return [each for each in said if each.instance != self._instance]

    # --- retention

    async def old_audit(self, before: datetime) -> OldAudit | None:
        """Return the rows that may be removed."""
        return await self._engine.read(partial(reading.old_audit_in, before=before))

    async def audit_head(self) -> AuditHead:
        """Return the head of the audit's chain."""
        return await self._engine.read(reading.audit_head_in)

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows of the audit with their links."""
        return await self._engine.read(partial(reading.linked_audit_in, after=after, limit=limit))

    async def audit_markers(self) -> tuple[AuditMarker, ...]:
        """Return every marker, oldest first."""
        return await self._engine.read(reading.markers_in)

    async def _flag(self, name: str) -> StoredFlag | None:
        return await self._engine.read(partial(reading.flag_in, name=name))

    async def _transaction(self, work: Callable[[apsw.Connection], Any]) -> Any:
        return await self._engine.write(work)

    def _changed(self) -> None:
        for tell in self._told:
            tell()
