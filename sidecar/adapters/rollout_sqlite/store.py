"""The store of rollouts in the SQLite file of the record."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sidecar.adapters.rollout_tables import TabledRollouts
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.adapters.sqlite.statements import run, time_of
from sidecar.adapters.statements import Steps
from sidecar.core.identifiers import InstanceId
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import PINNED, text_of
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica
from sidecar.operations.rollout.store.store_rules import ALIVE_FOR, LISTED_FOR

SAID_AGAIN_AFTER: Final = timedelta(seconds=5)
"""The least time between two writes of the same number of bound turns: each write costs an fsync."""
SHOW: Final = "insert or replace into rollout_replicas values ($1, $2, $3, $4)"
FORGET: Final = "delete from rollout_replicas where seen_at < $1"
REPLICAS: Final = """
select instance_id, version, seen_at, pinned from rollout_replicas where seen_at >= $1 order by instance_id
"""
Result = TypeVar("Result")


class SqliteRollouts(TabledRollouts):
    """Rollouts in one file that only this process has open.

    Args:
        engine: of the record's file; the caller that opened it closes it.
        instance: of this process; a new one at each start.
        clock: decides whether this process counts as alive.
    """

    def __init__(self, engine: SqliteEngine, instance: InstanceId, clock: Clock) -> None:
        super().__init__(instance)
        self._engine = engine
        self._clock = clock
        self._told: list[Callable[[], None]] = []
        self._shown: tuple[int, datetime] | None = None
        self._kept: tuple[PinnedTurnCount, datetime] | None = None

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` after every change; no other process can make one."""
        self._told.append(tell)

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Publish the version that the binds of this process use, and the turns that it has bound.

        The version stays in memory, because every other process is dead. The turns are for the next process.
        """
        self._shown = (version, at)
        before, kept_at = self._kept or (NOTHING_PINNED, at)
        if before.turns != pinned.turns or (pinned.turns and at - kept_at >= SAID_AGAIN_AFTER):

            def said() -> Steps[None]:
                yield (SHOW, self._instance, version, at, text_of(pinned.turns))
                yield (FORGET, at - max(LISTED_FOR, pinned.lasting + ALIVE_FOR))

            await self._confirmed(said)
            # After the commit: if it fails, the next call writes again.
            self._kept = (pinned, at)

    async def replicas(self) -> Sequence[Replica]:
        """Return this process, if it has published recently."""
        if self._shown is None:
            return []
        (version, at), now = self._shown, self._clock.now()
        return [Replica(self._instance, version, at, alive=now - at <= ALIVE_FOR)] if now - at <= LISTED_FOR else []

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last publications of earlier processes with this file."""
        return [each for each in await self._read(_said(self._clock.now() - within)) if each.instance != self._instance]

    async def _read(self, steps: Steps[Result]) -> Result:
        return await self._engine.read(lambda connection: run(connection, steps))

    async def _transaction(self, work: Callable[[], Steps[Result]]) -> Result:
        return await self._engine.write(lambda connection: run(connection, work()))

    def _changed(self) -> None:
        for tell in self._told:
            tell()

    def _purge(self, marker: AuditMarker) -> Steps[None]:
        yield ("insert into rollout_audit_markers values ($1, $2)", marker.number, text_of(marker))
        # Triggers refuse to delete audit rows unless this table has a row. It is empty again before the commit.
        yield ("insert into purging values ('retention of the audit of rollouts')",)
        yield ("delete from rollout_audit where number <= $1", marker.number)
        yield ("delete from rollout_answers where at < $1", marker.before)
        yield ("delete from purging",)

    def _time(self, value: Any) -> datetime:
        return time_of(value)


def _said(since: datetime) -> Steps[Sequence[Replica]]:
    rows = yield (REPLICAS, since)
    return [
        Replica(InstanceId(instance), version, time_of(seen_at), alive=False, pinned=PINNED.decode(pinned))
        for instance, version, seen_at, pinned in rows
    ]
