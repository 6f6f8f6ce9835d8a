"""Puts sidecars, their record, hosts and clients together and lets a schedule of the suite `record` happen."""

import asyncio
import gc
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Final

from sidecar.adapters.virtual_time import Trace, simulate
from sidecar.core.errors import SubagentsError
from sidecar.core.executing.events import EFFECT_SENT, ChildEvent
from tests.support.simulation.connector import ScriptedConnector
from tests.support.simulation.ports import JumpingClock
from tests.support.simulation.record.clients import PersistentClient, Watch
from tests.support.simulation.record.fleet import LIFETIME, Beside, Fleet, Sidecar
from tests.support.simulation.record.generating import CALM_AFTER
from tests.support.simulation.record.processes import ConnectionLost, ProcessLoop
from tests.support.simulation.record.schedule import Blow, RecordSchedule
from tests.support.simulation.runner import ScriptedRunner
from tests.support.simulation.store import Disk

AT_MOST: Final = LIFETIME + 12.0
"""Seconds after which every turn has been closed, by its client or for it."""
IN_A_MOMENT: Final = 3.0
BETWEEN_LOOKS: Final = 0.25
"""Seconds after the reapers have looked: what they begin then is over by now."""


@dataclass(slots=True)
class RecordSeen:
    """Everything that can be known of a run from outside."""

    schedule: RecordSchedule
    trace: Trace
    loop: ProcessLoop
    counted: Counter[str]
    watch: Watch
    disk: Disk
    hosts: ScriptedRunner
    connector: ScriptedConnector
    asked_by: dict[str, str]
    sidecars: list[Sidecar]
    fleet: Fleet
    left_over: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    crash: str = ""


class RecordWorld:
    """One run of a schedule."""

    def __init__(self, schedule: RecordSchedule, *, readable: bool = False) -> None:
        """Build everything; nothing happens yet."""
        trace = Trace(readable=readable)
        loop = ProcessLoop(Random(f"order {schedule.name}"), trace)
        counted: Counter[str] = Counter()
        disk = Disk(trace)
        hosts = ScriptedRunner(loop, schedule.scripts, _durability(disk), counted)
        connector = ScriptedConnector(loop, counted, hosts.asked)
        connector.durable_keys = partial(_keys_on, disk)
        self._schedule = schedule
        self._beside = Beside(loop, schedule, counted, disk, JumpingClock(loop), hosts, connector)
        self._watch = Watch()
        self._fleet: Fleet | None = None

    def run(self) -> RecordSeen:
        """Let it happen."""
        beside, strays = self._beside, list[str]()
        beside.loop.set_exception_handler(lambda _, context: strays.append(f"loop: {context.get('exception')!r}"))
        crash = ""
        left_over: list[str] = []
        try:
            left_over = simulate(beside.loop, self._happen())
        except Exception as error:  # noqa: BLE001  a crash of the run is a finding like any other
            crash = f"{type(error).__name__}: {error}"
        assert self._fleet is not None
        return RecordSeen(
            schedule=self._schedule,
            trace=beside.loop._trace,
            loop=beside.loop,
            counted=beside.counted,
            watch=self._watch,
            disk=beside.disk,
            hosts=beside.hosts,
            connector=beside.connector,
            asked_by=beside.asked_by,
            sidecars=self._fleet.all,
            fleet=self._fleet,
            left_over=left_over,
            strays=[*strays],
            crash=crash,
        )

    async def _happen(self) -> list[str]:
        beside, schedule = self._beside, self._schedule
        loop = beside.loop
        fleet = self._fleet = Fleet(beside)
        beside.hosts.call_tool = fleet.call_tool
        for mishap in schedule.mishaps:
            if mishap.blow in (Blow.KILL, Blow.PAUSE, Blow.STOP):
                loop.call_at(mishap.at, fleet.strike, mishap)
        for at, seconds in schedule.clock_jumps:
            loop.call_at(at, self._jump, seconds)
        loop.call_at(CALM_AFTER, self._calm)
        outside = (loop, self._watch, beside.counted)
        clients = [
            loop.create_task(PersistentClient(spec, fleet, outside).run(), name=f"client {spec.turn_id}")
            for spec in schedule.turns
        ]
        for client in clients:
            await client
        await asyncio.sleep(max(0.0, CALM_AFTER + 2 * IN_A_MOMENT - loop.time()))
        for _ in range(int(AT_MOST - loop.time())):
            if all(turn.head.ended for turn in beside.disk.contents.turns.values()):
                break
            await asyncio.sleep(1.0)
        await asyncio.sleep(IN_A_MOMENT + BETWEEN_LOOKS)
        return await self._look_back(fleet)

    async def _look_back(self, fleet: Fleet) -> list[str]:
        """See what is left, and whether any grant still opens anything anywhere."""
        left: list[str] = []
        for sidecar in fleet.standing:
            left += [f"{sidecar.instance}: {task.get_name()}" for task in sidecar.spawner.tasks if not task.done()]
            alive, running = sidecar.operations.grants.alive, sidecar.operations.dispatch_calls.running
            if alive or running:
                left.append(f"{sidecar.instance}: {alive} grants alive, {running} dispatches counted as running")
            for turn in sidecar.operations.turns:
                if turn.queues.occupied:
                    left.append(f"{sidecar.instance}: {turn.turn_id} has {turn.queues.occupied} queued calls")
            for run in self._beside.hosts.runs:
                try:
                    asked = sidecar.operations.call_tool(run.request.grant, "notes", "{}")
                    await sidecar.process.ask(asked, "late", 1.0)
                    left.append(f"{sidecar.instance}: grant of {run.request.attempt_id}")
                except (SubagentsError, ConnectionLost) as refused:
                    if getattr(refused, "reason", "") != "GRANT_SPENT":
                        left.append(f"{sidecar.instance}: grant of {run.request.attempt_id}: {refused!r}")
        return left

    def _jump(self, seconds: float) -> None:
        self._beside.counted["wall clock jumps"] += 1
        self._beside.clock.wrong_by += timedelta(seconds=seconds)

    def _calm(self) -> None:
        """From now on everything works, and the clock is not slow any more: else turns would last an hour."""
        self._beside.disk.heal()
        self._beside.clock.wrong_by = max(self._beside.clock.wrong_by, timedelta(0))


def _keys_on(disk: Disk) -> set[str | None]:
    """Return the idempotency keys that are on disk now."""
    events = (kept.record for kept in disk.journal)
    sent = (each for each in events if isinstance(each, ChildEvent) and each.name == EFFECT_SENT)
    return {str(each.details()["key"]) for each in sent}


def _durability(disk: Disk) -> Any:
    def is_durable(child_id: str, contract_json: str) -> bool:
        opened = disk.children.get(child_id)
        return opened is not None and opened.context_json == contract_json

    return is_durable


def run_record_schedule(schedule: RecordSchedule, *, readable: bool = False) -> RecordSeen:
    """Let a schedule happen and return what was seen. The collector of garbage waits meanwhile."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return RecordWorld(schedule, readable=readable).run()
    finally:
        if collecting:
            gc.enable()
