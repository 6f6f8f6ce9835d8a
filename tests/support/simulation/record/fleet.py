"""The sidecars on one record: started, killed, paused, started again; who of them counts as alive."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.binding.bind import BindingRules
from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import GrantSpent, StoreUnavailable
from sidecar.core.executing.retries import BreakerRules, RetryRules
from sidecar.core.identifiers import Digest, InstanceId
from sidecar.operations.process.draining import Drain, DrainRules
from sidecar.operations.process.turn_assembly import Operations, Ports, assemble
from sidecar.operations.record.lease import Lease
from sidecar.operations.rules import DispatchRules
from tests.support.simulation.cards import orchestrator
from tests.support.simulation.connector import ScriptedConnector
from tests.support.simulation.ports import (
    AllOn,
    CountedIds,
    FixedDefinitions,
    JumpingClock,
    KeepingRecorder,
    WatchedSpawner,
)
from tests.support.simulation.record.processes import ConnectionLost, Process, ProcessLoop
from tests.support.simulation.record.runners import RemoteRunner
from tests.support.simulation.record.schedule import Blow, Mishap, RecordSchedule
from tests.support.simulation.runner import ScriptedRunner
from tests.support.simulation.store import Disk, FaultyDatabase, WatchedStore, Weather
from tests.support.simulation.world import KEYS, VOCABULARY

LEASE: Final = 3.0
LIFETIME: Final = 20.0
IDLE: Final = 12.0
PATIENCE: Final = 4.0
"""Seconds that a sub-agent waits for the gateway."""
RULES: Final = DispatchRules(
    binding=BindingRules(4, 4),
    vocabulary=VOCABULARY,
    join_timeout=timedelta(seconds=6),
    turn_lifetime=timedelta(seconds=LIFETIME),
    idle_lifetime=timedelta(seconds=IDLE),
    resume_grace=timedelta(seconds=2),
    record_timeout=timedelta(seconds=1),
    record_poll_interval=timedelta(seconds=0.5),
    retries=RetryRules(share=1000.0, floor=1000),
    breaker=BreakerRules(failures=10**6),
)

STOPPING: Final = DrainRules(grace=8.0, margin=1.0, end_within=2.0, outlived=True)


@dataclass(slots=True)
class Sidecar:
    """One instance. `began_at`, `stops_at`, `over_at`: of the process."""

    instance: InstanceId
    place: int
    process: Process
    spawner: WatchedSpawner
    recorder: KeepingRecorder
    operations: Operations
    began_at: float
    stops_at: float = float("inf")
    over_at: float = float("inf")


@dataclass(slots=True)
class Beside:
    """What all sidecars share, and what outlives them."""

    loop: ProcessLoop
    schedule: RecordSchedule
    counted: Counter[str]
    disk: Disk
    clock: JumpingClock
    hosts: ScriptedRunner
    connector: ScriptedConnector
    memory: InProcessMemory = field(default_factory=InProcessMemory)
    asked_by: dict[str, str] = field(default_factory=dict)


class LeasedDatabase(FaultyDatabase):
    """A database that keeps leases, too."""

    is_shared = True

    def leased(self, lend: Callable[[InstanceId], None], *, shared: bool) -> "LeasedDatabase":
        """Have `lend` told of each renewal; not shared: only one process at a time has it, as a file."""
        self._lend, self.is_shared = lend, shared
        return self

    @property
    def shared(self) -> bool:
        """Whether others may append meanwhile."""
        return self.is_shared

    async def renew_lease(self) -> None:
        """Renew it, unless the store is away."""
        chance, faults = self._weather.chance, self._weather.faults
        await self._read()
        if not self._disk.healthy and chance.random() < faults.refuses:
            raise StoreUnavailable("the store is away")
        self._lend(self.instance)


class Fleet:
    """The sidecars, dead and alive."""

    def __init__(self, beside: Beside) -> None:
        """Start the first instances."""
        self._beside = beside
        self.all: list[Sidecar] = []
        self.leases: dict[InstanceId, list[tuple[float, float]]] = {}
        self._cuts = [each for each in beside.schedule.mishaps if each.blow in (Blow.CUT_BEFORE, Blow.CUT_AFTER)]
        self._commits: Counter[int] = Counter()
        self.places = 2 if beside.schedule.shared else 1
        self._definitions: list[FixedDefinitions] = []
        self._replaced = False
        if beside.schedule.replaced_at is not None:
            beside.loop.call_at(beside.schedule.replaced_at, self._replace, context=Context())
        for place in range(self.places):
            self._start(place)

    def at(self, place: int) -> Sidecar:
        """Return the newest instance at a place, dead or alive."""
        return [each for each in self.all if each.place == place][-1]

    @property
    def standing(self) -> list[Sidecar]:
        """The instances that have not died."""
        return [each for each in self.all if each.over_at == float("inf")]

    # --- alive, on record

    def alive(self, instance: InstanceId) -> bool:
        """Say whether an instance counts as alive now."""
        now = self._beside.loop.time()
        if self._beside.schedule.shared:
            return any(now < end for _, end in self.leases.get(instance, ()))
        return self.alive_at(instance, now)

    def alive_at(self, instance: str, at: float) -> bool:
        """Say whether an instance counted as alive at a time: by lease, or because nobody came after it.

        At the very moment at which a lease ends and is renewed, it may be seen either way.
        """
        if self._beside.schedule.shared:
            return any(begin < at < end for begin, end in self.leases.get(InstanceId(instance), ()))
        began = [each.instance for each in self.all if each.began_at <= at]
        return bool(began) and began[-1] == instance

    def _lend(self, instance: InstanceId) -> None:
        now = self._beside.loop.time()
        self.leases.setdefault(instance, []).append((now, now + LEASE))

    # --- what happens to them

    def _replace(self) -> None:
        """Let other versions of all definitions serve what is bound from now on."""
        self._beside.counted["definitions rolled back"] += 1
        self._replaced = True
        for definitions in self._definitions:
            definitions.load(self._cards())

    def _cards(self) -> list[Card]:
        cards = self._beside.schedule.cards
        if self._replaced:
            cards = tuple(replace(card, digest=Digest(f"{card.digest}-other")) for card in cards)
        return [orchestrator(tuple(card.definition.slot for card in cards)), *cards]

    def strike(self, mishap: Mishap) -> None:
        """Let a blow fall."""
        sidecar, loop, counted = self.at(mishap.place), self._beside.loop, self._beside.counted
        if sidecar.over_at < float("inf"):
            return
        if mishap.blow is Blow.PAUSE:
            counted["sidecar paused"] += 1
            sidecar.process.pause()
            loop.call_later(mishap.lasts, sidecar.process.go_on, context=Context())
            return
        counted[f"sidecar: {mishap.blow}"] += 1
        if mishap.blow is Blow.STOP:
            sidecar.stops_at = loop.time()
            sidecar.process.start(self._stop(sidecar, mishap), f"stop of {sidecar.instance}")
        else:
            self._over(sidecar, mishap)

    async def _stop(self, sidecar: Sidecar, mishap: Mishap) -> None:
        """What a sidecar does that is told to end; it may be paused or killed meanwhile."""
        beside, operations = self._beside, sidecar.operations
        operations.binding.draining = True
        drain = Drain(STOPPING, operations.turns, operations.end_turn, dict, beside.clock)
        await drain.wait(asyncio.Event(), lambda _: None)
        left = await drain.leave()
        beside.counted["turn left open by a stop"] += left.left
        beside.counted["turn cut off by a stop"] += left.cut_off
        now = beside.loop.time()
        held = self.leases[sidecar.instance]
        self.leases[sidecar.instance] = [(begin, min(end, now)) for begin, end in held]
        self._over(sidecar, mishap)

    def _over(self, sidecar: Sidecar, mishap: Mishap) -> None:
        sidecar.over_at = self._beside.loop.time()
        sidecar.process.kill()
        self._beside.loop.call_later(mishap.lasts, self._start, mishap.place, context=Context())

    def _power(self, place: int) -> Callable[[int, bool], None]:
        def cut(_: int, kept: bool) -> None:
            if self._beside.disk.healthy:
                return
            self._commits[place] += not kept
            wanted = Blow.CUT_AFTER if kept else Blow.CUT_BEFORE
            for mishap in self._cuts:
                if (mishap.place, mishap.blow, mishap.at) == (place, wanted, float(self._commits[place])):
                    self.strike(mishap)

        return cut

    def _start(self, place: int) -> None:
        """Start the next instance at a place."""
        beside = self._beside
        number = sum(1 for each in self.all if each.place == place) + 1
        instance = InstanceId(f"s{place}-{number}")
        beside.counted["sidecar starts again"] += number > 1
        process = Process(beside.loop, instance)
        sidecar = process.within(lambda: self._assembled(instance, place, process))
        self.all.append(sidecar)

    def _assembled(self, instance: InstanceId, place: int, process: Process) -> Sidecar:
        beside, schedule = self._beside, self._beside.schedule
        loop, name = beside.loop, f"{schedule.name} {instance}"
        spawner, recorder = WatchedSpawner(loop), KeepingRecorder(loop)
        weather = Weather(Random(f"store {name}"), schedule.faults, beside.counted, self._power(place))
        database = LeasedDatabase(loop, beside.disk, weather, instance, self.alive).leased(
            self._lend, shared=schedule.shared
        )
        self._lend(instance)
        lease = Lease(database, LEASE if schedule.shared else None, clock=beside.clock, recorder=recorder)
        first = [orchestrator(tuple(card.definition.slot for card in schedule.cards)), *schedule.cards]
        definitions = FixedDefinitions(first)
        definitions.load(self._cards())
        self._definitions.append(definitions)
        flags: Any = AllOn()
        ports = Ports(
            clock=beside.clock,
            ids=CountedIds(f"{instance}-"),
            chance=Random(f"jitter {name}"),
            spawner=spawner,
            store=WatchedStore(loop, beside.disk, database, (spawner, recorder)),
            recorder=recorder,
            definitions=definitions,
            flags=flags,
            runners=RemoteRunner(loop, beside.hosts, beside.asked_by, instance),
            connectors=beside.connector,
            memory=beside.memory if schedule.memory_lasts else InProcessMemory(),
            rollouts=definitions.promoted,
            lease_held=lease.held,
        )
        operations = assemble(RULES, KEYS, ports)
        for work in (*operations.loops, lease.run):
            process.start(work(), f"background of {instance}")
        return Sidecar(instance, place, process, spawner, recorder, operations, loop.time())

    async def call_tool(self, grant: str, tool_id: str, arguments_json: str) -> Any:
        """Carry a sub-agent's request to the gateway that it was given, or to another one once that is gone."""
        mine = [each for each in self.standing if each.instance == self._beside.asked_by[grant]]
        for sidecar in [*mine, *self.standing][:1]:
            asked = sidecar.operations.call_tool(grant, tool_id, arguments_json)
            try:
                return await sidecar.process.ask(asked, "tool", PATIENCE)
            except ConnectionLost:
                break
        raise GrantSpent("there is no gateway any more")
