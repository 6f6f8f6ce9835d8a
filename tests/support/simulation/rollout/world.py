"""Puts sidecars, people, flags, gates and outages together and lets a schedule of the suite `rollout` happen."""

import asyncio
import gc
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Final

from sidecar.adapters.virtual_time import Trace, simulate
from tests.support.simulation.ports import JumpingClock
from tests.support.simulation.record.processes import ProcessLoop
from tests.support.simulation.rollout import cards
from tests.support.simulation.rollout.flags import FlagService, FlagsInStore
from tests.support.simulation.rollout.fleet import Fleet
from tests.support.simulation.rollout.generating import CALM_AFTER, USERS
from tests.support.simulation.rollout.journal import Journal, Switched
from tests.support.simulation.rollout.model_values import Slot
from tests.support.simulation.rollout.outside import GateService
from tests.support.simulation.rollout.people import Person, TurnTaker
from tests.support.simulation.rollout.replicas import PLACES, Around
from tests.support.simulation.rollout.schedule import Blow, Flip, RolloutSchedule, TurnPlan
from tests.support.simulation.rollout.store import WatchedContents
from tests.support.simulation.rollout.translating import rollout_of
from tests.support.simulation.rollout.wishes import Wish

LONG: Final = timedelta(minutes=3)
"""After it, what died counts as dead, and what waited for somebody else is taken over."""
SETTLED: Final = 1.3
"""Seconds in which every loop looks once more than once."""
LAST: Final = (USERS[0], USERS[6], USERS[-1], "")
"""Whose turns are bound when all is calm."""


@dataclass(slots=True)
class RolloutSeen:
    """Everything that can be known of a run from outside. `last`: place in the journal from which all was well."""

    schedule: RolloutSchedule
    trace: Trace
    loop: ProcessLoop
    counted: Counter[str]
    journal: Journal
    contents: WatchedContents
    fleet: Fleet
    asked: list[Wish]
    last: int = 0
    strays: list[str] = field(default_factory=list)
    crash: str = ""

    @property
    def began_as(self) -> tuple[Slot, ...]:
        """The slots as they stood at the beginning."""
        return self.schedule.slots


class RolloutWorld:
    """One run of a schedule."""

    def __init__(self, schedule: RolloutSchedule, *, readable: bool = False) -> None:
        """Build everything; nothing happens yet."""
        self._schedule = schedule
        trace = Trace(readable=readable)
        loop = ProcessLoop(Random(f"order {schedule.name}"), trace)
        journal, clock = Journal(loop, trace), JumpingClock(loop)
        contents = WatchedContents(journal=journal, clock=clock)
        self._around = Around(
            loop=loop,
            schedule=schedule,
            journal=journal,
            counted=Counter(),
            clock=clock,
            contents=contents,
            gates=GateService(clock, journal, Random(f"gates {schedule.name}")),
            flags=FlagsInStore(contents) if schedule.embedded else FlagService(journal),
        )
        self._fleet = Fleet(self._around)
        self._seen = RolloutSeen(schedule, trace, loop, self._around.counted, journal, contents, self._fleet, asked=[])

    def run(self) -> RolloutSeen:
        """Let it happen."""
        seen = self._seen
        seen.loop.set_exception_handler(lambda _, context: seen.strays.append(f"{context.get('exception')!r}"))
        try:
            simulate(seen.loop, self._happen())
        except Exception as error:  # noqa: BLE001  a crash of the run is a finding like any other
            seen.crash = f"{type(error).__name__}: {error}"
        return seen

    async def _happen(self) -> None:
        around, schedule, fleet = self._around, self._schedule, self._fleet
        self._begin()
        for place in range(PLACES):
            fleet.start(place)
        self._plan()
        people = [Person(each, around, fleet, self._seen.asked).run() for each in schedule.errands]
        turns = [TurnTaker(each, around, fleet).run() for each in schedule.turns]
        tasks = [around.loop.create_task(work) for work in (*people, *turns)]
        around.loop.call_at(CALM_AFTER, self._calm)
        for task in tasks:
            await task
        await asyncio.sleep(max(0.0, CALM_AFTER + SETTLED - around.loop.time()))
        await self._look_back()

    def _begin(self) -> None:
        around, contents = self._around, self._around.contents
        for slot in self._schedule.slots:
            rollout = rollout_of(slot, self._schedule.window)
            contents.rollouts[rollout.slot] = rollout
            contents.version += 1
        contents.definitions.update({each.digest: each for each in cards.kept_cards()})
        was_on = [each.flag for slot in self._schedule.slots for each in slot.definitions if each.flags == "on"]
        for name in was_on:
            around.journal.add(Switched(str(name), on=True))
        for name in self._schedule.flags_on:
            around.flags.set(name, True)
        for name in was_on:
            if name not in self._schedule.flags_on:
                around.journal.add(Switched(str(name), on=False))

    def _plan(self) -> None:
        loop, schedule = self._around.loop, self._schedule
        for mishap in schedule.mishaps:
            strike = self._fleet.kill if mishap.blow is Blow.KILL else self._fleet.pause
            loop.call_at(mishap.at, strike, mishap.place, mishap.lasts)
        for at, seconds in schedule.jumps:
            loop.call_at(at, self._jump, seconds)
        for flip in schedule.flips:
            loop.call_at(flip.at, self._flip, flip)
        for at, variants in schedule.catalogues[1:]:
            for place in range(PLACES):
                loop.call_at(at + 0.4 * place, self._fleet.load, place, variants)

    def _flip(self, flip: Flip) -> None:
        around = self._around
        name = f"{flip.name}_cohort" if flip.cohort else flip.name
        if around.flags.is_on(name) != flip.on:
            around.counted[f"flag flips {'on' if flip.on else 'off'}"] += 1
            around.contents.writer = "somebody"
            around.flags.set(name, flip.on)

    def _jump(self, seconds: float) -> None:
        self._around.counted["wall clock jumps"] += 1
        self._around.clock.wrong_by += timedelta(seconds=seconds)

    def _calm(self) -> None:
        """From now on everything works."""
        self._around.healthy = True

    async def _look_back(self) -> None:
        """Let everything that is due be done, and bind once more everywhere."""
        around, seen = self._around, self._seen
        for replica in self._fleet.standing:
            await replica.began.wait()
        for replica in self._fleet.standing:
            await replica.process.ask(replica.rest(), "rest", 60.0)
        await self._everywhere()
        seen.last = around.journal.add(LONG)
        around.clock.wrong_by += LONG
        await self._everywhere()
        await self._everywhere()
        for place in range(PLACES):
            for number, user in enumerate(LAST):
                plan = TurnPlan(f"last{place}-{number}", 0.0, user, "", place, ())
                await TurnTaker(plan, around, self._fleet).run()
        await self._everywhere()
        for replica in self._fleet.standing:
            await replica.process.ask(replica.export.look(), "export", 60.0)
            await replica.process.ask(replica.list_decommissions(), "list", 60.0)

    async def _everywhere(self) -> None:
        for replica in self._fleet.standing:
            await replica.process.ask(replica.look(), "look", 60.0)


def run_rollout_schedule(schedule: RolloutSchedule, *, readable: bool = False) -> RolloutSeen:
    """Let a schedule happen and return what was seen. The collector of garbage waits meanwhile."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return RolloutWorld(schedule, readable=readable).run()
    finally:
        if collecting:
            gc.enable()
