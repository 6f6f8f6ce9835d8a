"""The store of several replicas: durable in memory, behind connections that are slow, refuse, or lose an answer.

Every commit goes into the journal, in the order in which commits happen: what the model is compared with.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Final

from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.operations.rollout.store.ports import (
    AuditQuery,
    AuditRow,
    KeptDefinition,
    RolloutWrite,
    StoredAnswer,
    StoredFlag,
)
from sidecar.operations.rollout.store.replicas import NOTHING_PINNED, PinnedTurnCount, Replica
from tests.support.simulation.ports import BEGIN, JumpingClock
from tests.support.simulation.record.processes import Process, State
from tests.support.simulation.rollout.journal import Committed, Effective, Journal, Shown, Switched, Troubled
from tests.support.simulation.rollout.schedule import Faults, Outage, Whom

LONGEST_HANG: Final = 3.0
"""Seconds after which every connection gives up."""


@dataclass(slots=True)
class Weather:
    """What decides over what one process sees of the outside.

    Attributes:
        healthy: asked each time; from some moment on nothing goes wrong any more.
    """

    loop: VirtualLoop
    journal: Journal
    counted: Counter[str]
    faults: Faults
    outages: tuple[Outage, ...]
    place: int
    life: str
    chance: Random
    healthy: Callable[[], bool]

    def outage(self, whom: Whom) -> Outage | None:
        """Return why somebody is away now."""
        if self.healthy():
            return None
        now = self.loop.time()
        for each in self.outages:
            if (each.whom, each.place) == (whom, self.place) and each.begin <= now < each.end:
                return each
        return None

    async def reach(self, whom: Whom, refuse: Exception) -> None:
        """Take a little time; raise `refuse` if somebody is away, perhaps late."""
        outage = self.outage(whom)
        if outage is not None:
            self.trouble(f"{whom} {'hangs' if outage.hangs else 'away'}")
            if outage.hangs:
                await asyncio.sleep(min(outage.end - self.loop.time(), LONGEST_HANG))
            raise refuse
        if self.chance.random() < 0.4:
            await asyncio.sleep(0)

    async def passes(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    def trouble(self, what: str) -> None:
        """Take note of a fault."""
        self.counted[what] += 1
        self.journal.add(Troubled(self.life, what))

    def happens(self, share: float) -> bool:
        """Say whether something goes wrong that does so for a share of all."""
        return not self.healthy() and share > 0 and self.chance.random() < share


class WatchedContents(RolloutsInMemory, kw_only=True):
    """What is kept; every change of it goes into the journal. `writer`: life of who changes it right now."""

    journal: Journal
    clock: JumpingClock
    writer: str = ""

    def write(self, change: RolloutWrite) -> None:
        """Keep a change, and say so."""
        before = (self.version, self.last_number, len(self.answers))
        super().write(change)
        if (self.version, self.last_number, len(self.answers)) != before:
            self.journal.add(Committed(self.writer, change, self.version, self.wall))

    def set_flag(self, flag: StoredFlag, expected_revision: int) -> None:
        """Set a flag, and say so."""
        super().set_flag(flag, expected_revision)
        self.journal.add(Switched(flag.name, flag.on))

    def became_effective(self, event_id: str, at: datetime, instance: InstanceId) -> bool:
        """Note that a transition took effect, and say so."""
        before = len(self.noted_by)
        ours = super().became_effective(event_id, at, instance)
        self.journal.add(Effective(self.writer, event_id, (at - BEGIN).total_seconds(), len(self.noted_by) > before))
        return ours

    @property
    def wall(self) -> float:
        """Wall-clock seconds."""
        return (self.clock.now() - BEGIN).total_seconds()


class FaultyRollouts(MemoryRollouts):
    """The store as one process sees it."""

    def __init__(self, clock: JumpingClock, contents: WatchedContents, weather: Weather, process: Process) -> None:
        """Join the parts."""
        super().__init__(clock, contents, InstanceId(weather.life))
        self.clock = clock
        self._weather = weather
        self._process = process
        self._watched = contents
        self._shown = -1

    def on_change(self, tell: Callable[[], None]) -> None:
        """Have `tell` called after most changes, a moment later."""
        weather = self._weather

        def hint() -> None:
            lost = weather.outage(Whom.STORE) is not None or weather.chance.random() < 0.2
            if self._process.state is State.RUNS and not lost:
                weather.loop.call_later(weather.chance.choice((0.0, 0.002)), tell, context=Context())

        self._watched.listeners.append(hint)

    async def _read(self) -> None:
        weather = self._weather
        if weather.happens(weather.faults.store_slow):
            weather.trouble("store slow")
            await asyncio.sleep(weather.chance.uniform(0.3, 2.6))
        await weather.reach(Whom.STORE, StoreUnavailable("the store is away"))
        if weather.happens(weather.faults.store_refuses):
            weather.trouble("store refuses")
            raise StoreUnavailable("the store is away")

    async def _commit(self) -> None:
        await self._read()
        await asyncio.sleep(self._weather.chance.uniform(0, 0.004))
        self._watched.writer = self._weather.life

    async def _forget(self) -> None:
        """Lose the answer of a commit, perhaps after a while."""
        weather = self._weather
        if weather.happens(weather.faults.store_forgets):
            weather.trouble("store commits and says it did not")
            await asyncio.sleep(weather.chance.choice((0.0, weather.chance.uniform(0.0, LONGEST_HANG))))
            raise StoreUnavailable("the answer was lost")

    async def version(self) -> int:
        """Return the newest version, unless away."""
        await self._read()
        return await super().version()

    async def rollouts(self) -> Sequence[SlotRollout]:
        """Return all rollouts, unless away."""
        await self._read()
        return await super().rollouts()

    async def rollout(self, slot: Slot) -> SlotRollout | None:
        """Return one rollout, unless away."""
        await self._read()
        return await super().rollout(slot)

    async def write(self, change: RolloutWrite) -> None:
        """Write, or refuse, or say nothing of it."""
        await self._commit()
        await super().write(change)
        await self._forget()

    async def answer(self, request_id: str) -> StoredAnswer | None:
        """Return an answer, unless away."""
        await self._read()
        return await super().answer(request_id)

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, unless away."""
        await self._read()
        return await super().audit(query)

    async def became_effective(self, event_ids: Sequence[str], at: datetime) -> Sequence[str]:
        """Note that transitions took effect, or refuse, or say nothing of it."""
        await self._commit()
        news = await super().became_effective(event_ids, at)
        await self._forget()
        return news

    async def unexported(self, limit: int) -> Sequence[AuditRow]:
        """Return rows, unless away."""
        await self._read()
        return await super().unexported(limit)

    async def exported(self, rows: Sequence[AuditRow]) -> None:
        """Note that rows were handed on, or refuse, or say nothing of it."""
        await self._commit()
        await super().exported(rows)
        await self._forget()

    async def keep_definition(self, definition: KeptDefinition) -> None:
        """Keep a definition, or refuse, or say nothing of it."""
        await self._commit()
        await super().keep_definition(definition)
        await self._forget()

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a definition, unless away."""
        await self._read()
        return await super().definition(digest)

    async def flags(self) -> Sequence[StoredFlag]:
        """Return the flags, unless away."""
        await self._read()
        return await super().flags()

    async def set_flag(self, name: str, on: bool, expected_revision: int, by: str, at: datetime) -> StoredFlag:
        """Set a flag, or refuse, or say nothing of it."""
        await self._commit()
        flag = await super().set_flag(name, on, expected_revision, by, at)
        await self._forget()
        return flag

    async def show(self, version: int, at: datetime, pinned: PinnedTurnCount = NOTHING_PINNED) -> None:
        """Say what is shown, unless away."""
        if self._shown != version:
            self._shown = version
            self._weather.journal.add(Shown(self._weather.life, version))
        await self._read()
        await super().show(version, at, pinned)

    async def replicas(self) -> Sequence[Replica]:
        """Return the replicas, unless away."""
        await self._read()
        return await super().replicas()
