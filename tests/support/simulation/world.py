"""Puts the operations into a made-up world and lets a schedule happen."""

import asyncio
import gc
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.virtual_time import Trace, VirtualLoop, simulate
from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.dispatching.result_checks import ResultLimits
from sidecar.core.errors import SubagentsError
from sidecar.core.executing.retries import BreakerRules, RetryRules
from sidecar.core.status_events.policy import EventRule, Handling, Vocabulary
from sidecar.operations.process.turn_assembly import Operations, Ports, assemble
from sidecar.operations.rules import AdmissionRules, DispatchRules
from tests.support.simulation.cards import orchestrator
from tests.support.simulation.clients import Client, Watched
from tests.support.simulation.connector import ScriptedConnector
from tests.support.simulation.ports import (
    AllOn,
    CountedIds,
    FixedDefinitions,
    JumpingClock,
    KeepingRecorder,
    WatchedChance,
    WatchedSpawner,
)
from tests.support.simulation.runner import ScriptedRunner
from tests.support.simulation.schedule import Schedule, Tuning
from tests.support.simulation.store import Disk, FaultyDatabase, WatchedStore, Weather
from tests.support.simulation.wire.client import WireClient
from tests.support.simulation.wire.over_wire import WAYS, OverWire

KEYS = SigningKeys({"k": b"x" * 32}, "k")
MOST_STEPS = 50_000
"""Thirty times what the longest schedule takes, so that a defect that never ends is found soon."""
JOIN_TIMEOUT = 20.0
MARGIN = 0.25
LIFETIME = 60.0
BURST, PER_SECOND = 5, 10.0
CALM_AFTER = 45.0
PATIENCE = 60
VOCABULARY = Vocabulary(
    {
        "searching_offers": EventRule(),
        "thinking_hard": EventRule(Handling.TRANSFORM, becomes="still_working"),
        "still_working": EventRule(Handling.SUPPRESS),
        "checking_stock": EventRule(Handling.BATCH, window=timedelta(milliseconds=500)),
    },
    PER_SECOND,
    BURST,
)


@dataclass(slots=True)
class Seen:
    """Everything that can be known of a run from outside."""

    schedule: Schedule
    trace: Trace
    loop: VirtualLoop
    counted: Counter[str]
    watched: Watched
    store: Disk
    recorder: KeepingRecorder
    runner: ScriptedRunner
    connector: ScriptedConnector
    spawner: WatchedSpawner
    chance: WatchedChance
    left_over: list[str]
    grants_alive: int
    dispatches_running: int
    crash: str = ""
    wire_problems: list[str] = field(default_factory=list)


def rules_of(tuning: Tuning) -> DispatchRules:
    """Return what the operator decided."""
    generous = RetryRules(share=1000.0, floor=1000)
    return DispatchRules(
        binding=BindingRules(tuning.cap, tuning.max_dispatches),
        vocabulary=VOCABULARY,
        join_timeout=timedelta(seconds=JOIN_TIMEOUT),
        delivery_margin=timedelta(seconds=MARGIN),
        turn_lifetime=timedelta(seconds=LIFETIME),
        idle_lifetime=timedelta(seconds=tuning.idle_for),
        strict_prior_context=tuning.strict,
        replay_buffer_events=tuning.replay_buffer_events,
        admission=AdmissionRules(tuning.turns, tuning.admission, idle_turns=tuning.idle_turns),
        retries=RetryRules() if tuning.stingy else generous,
        breaker=BreakerRules(failures=1) if tuning.stingy else BreakerRules(failures=10**6),
        results=ResultLimits(narration=4000, events=300),
    )


class World:
    """One run of a schedule."""

    def __init__(self, schedule: Schedule, *, readable: bool = False) -> None:
        """Build everything; nothing happens yet."""
        self._schedule = schedule
        name = schedule.name
        trace = Trace(readable=readable)
        loop = VirtualLoop(Random(f"order {name}"), trace, MOST_STEPS)
        counted: Counter[str] = Counter()
        store = Disk(trace)
        self._weather = Weather(Random(f"store {name}"), schedule.store_faults, counted)
        runner = ScriptedRunner(loop, schedule.scripts, _durability(store), counted)
        watched = Watched(loop, trace, counted, opened=store.children_opened)
        self._clock = JumpingClock(loop)
        self._over_wire: OverWire | None = None
        self.seen = Seen(
            schedule=schedule,
            trace=trace,
            loop=loop,
            counted=counted,
            watched=watched,
            store=store,
            recorder=KeepingRecorder(loop),
            runner=runner,
            connector=ScriptedConnector(loop, counted, runner.asked),
            spawner=WatchedSpawner(loop),
            chance=WatchedChance(loop, f"jitter {name}"),
            left_over=[],
            grants_alive=0,
            dispatches_running=0,
        )

    def run(self) -> Seen:
        """Let it happen."""
        loop, seen = self.seen.loop, self.seen
        loop.set_exception_handler(lambda _, context: seen.spawner.strays.append(f"loop: {context.get('exception')!r}"))
        try:
            simulate(loop, self._happen())
        except Exception as error:  # noqa: BLE001  a crash of the run is a finding like any other
            seen.crash = f"{type(error).__name__}: {error}"
        return seen

    def _assembled(self) -> Operations:
        seen = self.seen
        slots = tuple(card.definition.slot for card in self._schedule.cards)
        flags: Any = AllOn()
        definitions = FixedDefinitions([orchestrator(slots), *self._schedule.cards])
        database = FaultyDatabase(seen.loop, seen.store, self._weather)
        ports = Ports(
            clock=self._clock,
            ids=CountedIds(),
            chance=seen.chance,
            spawner=seen.spawner,
            store=WatchedStore(seen.loop, seen.store, database, (seen.spawner, seen.recorder)),
            recorder=seen.recorder,
            definitions=definitions,
            flags=flags,
            runners=seen.runner,
            connectors=seen.connector,
            memory=InProcessMemory(),
            rollouts=definitions.promoted,
        )
        return assemble(rules_of(self._schedule.tuning), KEYS, ports)

    async def _happen(self) -> None:
        seen, operations = self.seen, self._assembled()
        seen.runner.call_tool = operations.call_tool
        background = [seen.loop.create_task(work(), name="background") for work in operations.loops]
        for at, seconds in self._schedule.clock_jumps:
            seen.loop.call_at(at, self._jump, seconds)
        if self._schedule.drain_at is not None:
            seen.loop.call_at(self._schedule.drain_at, self._drain, operations)
        seen.loop.call_at(CALM_AFTER, seen.store.heal)
        clients = self._clients(operations)
        for client in [
            seen.loop.create_task(each.run(), name=f"client {spec.turn_id}")
            for spec, each in zip(self._schedule.turns, clients, strict=True)
        ]:
            await client
        for _ in range(PATIENCE):
            if len(seen.recorder.of("turn_routed")) >= len(seen.watched.bound):
                break
            await asyncio.sleep(3.0)
        await asyncio.sleep(30.0)
        seen.counted.update(f"idle turn ended: {why}" for (why,) in seen.recorder.of("idle_turn_ended"))
        if self._over_wire is not None:
            await self._over_wire.finish(clients, seen.watched.asked)
            seen.wire_problems += self._over_wire.problems
        await self._look_back(operations)
        for task in background:
            task.cancel()

    def _clients(self, operations: Operations) -> list[Client]:
        """Return a client for each turn, in the process or over the wire as the suite says."""
        seen, way = self.seen, WAYS.get(self._schedule.suite)
        if way is None:
            return [Client(spec, operations, seen.watched) for spec in self._schedule.turns]
        given = (seen.loop, seen.spawner, self._clock, self._schedule.name, seen.counted)
        self._over_wire = OverWire(operations, way, *given)
        return [WireClient(spec, self._over_wire.asking, seen.watched) for spec in self._schedule.turns]

    async def _look_back(self, operations: Operations) -> None:
        """See what is left, and whether any grant still opens anything."""
        seen = self.seen
        seen.left_over = [task.get_name() for task in seen.spawner.tasks if not task.done()]
        seen.grants_alive = operations.grants.alive
        seen.dispatches_running = operations.dispatch_calls.running
        for run in seen.runner.runs:
            try:
                await operations.call_tool(run.request.grant, "notes", "{}")
                seen.left_over.append(f"grant of {run.request.attempt_id}")
            except SubagentsError as refused:
                if refused.reason != "GRANT_SPENT":
                    seen.left_over.append(f"grant of {run.request.attempt_id}: {refused.reason}")

    def _jump(self, seconds: float) -> None:
        self.seen.counted["wall clock jumps"] += 1
        self._clock.wrong_by += timedelta(seconds=seconds)

    def _drain(self, operations: Operations) -> None:
        self.seen.counted["sidecar drains"] += 1
        operations.binding.draining = True


def _durability(store: Disk) -> Any:
    def is_durable(child_id: str, contract_json: str) -> bool:
        opened = store.children.get(child_id)
        return opened is not None and opened.context_json == contract_json

    return is_durable


def run_schedule(schedule: Schedule, *, readable: bool = False) -> Seen:
    """Let a schedule happen and return what was seen. The collector of garbage waits meanwhile."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return World(schedule, readable=readable).run()
    finally:
        if collecting:
            gc.enable()
