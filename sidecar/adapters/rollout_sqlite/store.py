"""The rollout store in the SQLite file of the record."""

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

PUBLISH_INTERVAL: Final = timedelta(seconds=5)
"""Minimum time between two writes of the same number of bound turns, because each write costs an fsync."""
SHOW: Final = "insert or replace into rollout_replicas values ($1, $2, $3, $4)"
FORGET: Final = "delete from rollout_replicas where seen_at < $1"
REPLICAS: Final = """
select instance_id, version, seen_at, pinned from rollout_replicas where seen_at >= $1 order by instance_id
"""
Result = TypeVar("Result")


class SqliteRollouts(TabledRollouts):
    """Implements `RolloutStore` in a file that only this process has open.

    Args:
        engine: the database of the record. The caller that opened it closes it.
        instance: the id of this process, which is new at each start.
        clock: decides whether this process counts as alive.
    """

    def __init__(self, engine: SqliteEngine, instance: InstanceId, clock: Clock) -> None:
        super().__init__(instance)
        self._engine = engine
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []
        self._shown: tuple[int, datetime] | None = None
        self._published: tuple[PinnedTurnCount, datetime] | None = None
        """What was last written to the file, and when."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` after every change. Only this process can make changes."""
        self._listeners.append(tell)

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Publish the version of the rollouts that this process uses, and the turns that it has bound.

        The version is kept in memory only, because no other process can read it. The turns are stored for the next
        process with this file.
        """
        self._shown = (version, at)
        last_pinned, published_at = self._published or (NOTHING_PINNED, at)
        if last_pinned.turns != pinned.turns or (pinned.turns and at - published_at >= PUBLISH_INTERVAL):

            def publish_and_forget() -> Steps[None]:
                yield (SHOW, self._instance, version, at, text_of(pinned.turns))
                # The turns of an earlier process may still be open for `lasting`. Until then a decommission must know
                # of them.
                yield (FORGET, at - max(LISTED_FOR, pinned.lasting + ALIVE_FOR))

            # Readers are not notified: only decommissions read these rows, and they do so when they need them.
            await self._confirm(publish_and_forget)
            # Set only after the commit: if it fails, the next call writes again.
            self._published = (pinned, at)

    async def replicas(self) -> Sequence[Replica]:
        """Return this process, if it has published recently."""
        if self._shown is None:
            return []
        (version, at), now = self._shown, self._clock.now()
        return [Replica(self._instance, version, at, alive=now - at <= ALIVE_FOR)] if now - at <= LISTED_FOR else []

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last publication of each earlier process with this file, within a time."""
        publications = await self._read(_published_since(self._clock.now() - within))
        return [each for each in publications if each.instance != self._instance]  # its own turns are in memory

    async def _read(self, steps: Steps[Result]) -> Result:
        return await self._engine.read(lambda connection: run(connection, steps))

    async def _transaction(self, work: Callable[[], Steps[Result]]) -> Result:
        # `work` is called in the writer's thread, each time with a new generator: a used one cannot run again.
        return await self._engine.write(lambda connection: run(connection, work()))

    def _notify_readers(self) -> None:
        # On the event loop, after the commit. The listeners only set events, so the loop over them cannot be disturbed.
        for tell in self._listeners:
            tell()

    def _purge(self, marker: AuditMarker) -> Steps[None]:
        yield ("insert into rollout_audit_markers values ($1, $2)", marker.number, text_of(marker))
        # Triggers refuse to delete audit rows unless this table has a row. The row is removed before the commit.
        yield ("insert into purging values ('retention of the audit of rollouts')",)
        yield ("delete from rollout_audit where number <= $1", marker.number)
        yield ("delete from rollout_answers where at < $1", marker.before)
        yield ("delete from purging",)

    def _time(self, value: Any) -> datetime:
        return time_of(value)


def _published_since(since: datetime) -> Steps[Sequence[Replica]]:
    rows = yield (REPLICAS, since)
    return [
        Replica(InstanceId(instance), version, time_of(seen_at), alive=False, pinned=PINNED.decode(pinned))
        for instance, version, seen_at, pinned in rows
    ]
