"""Operators and breakers, who ask, wait, ask again elsewhere; and those whose turns are bound."""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.identifiers import TurnId
from sidecar.operations.rollout.requests import StepAnswer
from tests.support.simulation.record.processes import ConnectionLost
from tests.support.simulation.rollout import wishes
from tests.support.simulation.rollout.fleet import Fleet
from tests.support.simulation.rollout.journal import Answered, Began, Bound, Called, Ended
from tests.support.simulation.rollout.model_values import Slot
from tests.support.simulation.rollout.outside import OpenTurn
from tests.support.simulation.rollout.picking import pick
from tests.support.simulation.rollout.replicas import Around, Replica, request_of
from tests.support.simulation.rollout.schedule import Errand, TurnPlan
from tests.support.simulation.rollout.translating import asked_of, slot_of
from tests.support.simulation.rollout.wishes import Wish

MOST_ATTEMPTS = 4
LONG_WAYS = wishes.OF_LEAVING | {wishes.CONFIGURE}
CRASH = "crash"
"""In the place of a reason, where something was raised that is no refusal."""


async def until(loop: VirtualLoop, at: float) -> None:
    """Wait for a time of the loop."""
    await asyncio.sleep(max(0.0, at - loop.time()))


async def carried_out(around: Around, replica: Replica, wish: Wish, attempt: int) -> StepAnswer:
    """Let a sidecar work on a request; runs as part of its process."""
    journal = around.journal
    journal.add(Began(replica.life, wish, attempt, replica.operations.views.current().version))
    try:
        answer = await replica.operations.step(asked_of(wish), wish.subject)
    except SubagentsError as refused:
        journal.add(Answered(replica.life, wish, attempt, None, refused.reason, refused.message))
        raise
    except Exception as error:
        journal.add(Answered(replica.life, wish, attempt, None, CRASH, f"{type(error).__name__}: {error}"))
        raise
    journal.add(Answered(replica.life, wish, attempt, answer))
    return answer


@dataclass(slots=True)
class Person:
    """Somebody with one errand."""

    errand: Errand
    around: Around
    fleet: Fleet
    asked: list[Wish]
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        """Have a chance of one's own."""
        self.chance = Random(f"person {self.around.schedule.name} {self.errand.number}")

    async def run(self) -> None:
        """Do it: at its time, as often as needed."""
        await until(self.around.loop, self.errand.at)
        wish = self._wish()
        if wish is None:
            return
        self.asked.append(wish)
        self.around.counted[f"asked: {wish.kind}"] += 1
        if self.errand.twice:
            twins = (self._attempts(wish, place) for place in range(2))
            await asyncio.gather(*twins)
        else:
            await self._attempts(wish, self.errand.place)

    def _wish(self) -> Wish | None:
        contents, chance = self.around.contents, self.chance
        slots = tuple(slot_of(each, contents.wall) for _, each in sorted(contents.rollouts.items()))
        picked = pick(chance, slots, self.errand.role, round(contents.wall, 3))
        if picked is None:
            return None
        slot = next((each for each in slots if any(one.name == picked.name for one in each.definitions)), slots[0])
        names_none = picked.kind in ("ramp_down", "kill") or (picked.kind == "roll_back" and chance.random() < 0.7)
        revision = None if names_none else slot.revision - self.errand.stale
        request_id = f"r{self.errand.number}"
        if self.errand.reuses and self.asked:
            request_id = chance.choice(self.asked).request_id
            self.around.counted["request id used again"] += 1
        return Wish(
            request_id=request_id,
            kind=picked.kind,
            name=picked.name,
            subject=self.errand.subject,
            reason=f"errand {self.errand.number}",
            content=picked.content,
            revision=revision,
            dry_run=chance.random() < 0.03,
            role=self._role(picked.kind),
            instead=self._instead(picked.kind, slot),
            **picked.said,
        )

    def _role(self, kind: str) -> str:
        """Return as which role a ramp is asked for; by a chance of its own, so that all else stays as it is."""
        chance = Random(f"role {self.around.schedule.name} {self.errand.number}")
        return wishes.AUTOMATION if kind == wishes.SET_RAMP and chance.random() < 0.08 else wishes.OPERATOR

    def _instead(self, kind: str, slot: Slot) -> str:
        """Return who is named for the place of what is rolled back, if anybody is; by a chance of its own, too."""
        chance = Random(f"instead {self.around.schedule.name} {self.errand.number}")
        if kind != wishes.ROLL_BACK or chance.random() < 0.5:
            return ""
        return chance.choice((wishes.NOBODY, *(each.content for each in slot.definitions), "sha256:gone"))

    async def _attempts(self, wish: Wish, place: int) -> None:
        again = self.errand.again
        for attempt in range(MOST_ATTEMPTS):
            answered = await self._attempt(wish, place, attempt)
            if answered and not again:
                return
            again = again and not answered
            self.around.counted["asked again"] += 1
            await asyncio.sleep(self.chance.choice((0.0, 0.05, self.chance.uniform(0.0, 1.2))))
            if self.chance.random() < self.errand.fickle:
                place = 1 - place

    async def _attempt(self, wish: Wish, place: int, attempt: int) -> bool:
        """Ask once; returns whether there was an answer that means something."""
        replica, counted = self.fleet.at(place), self.around.counted
        if not replica.ready:
            return False
        work = carried_out(self.around, replica, wish, attempt)
        told, final = "done", True
        try:
            answer = await replica.process.ask(work, f"{wish.kind} {wish.request_id}", self.errand.patience)
            if answer.changed and wish.kind in LONG_WAYS:
                counted[f"done: {wish.kind} {wish.step or wish.mode}".strip()] += 1
            if answer.changed and wish.instead:
                counted[f"done: rolled back to {'nobody' if wish.instead == wishes.NOBODY else 'another'}"] += 1
            if answer.edits:
                final = not await self._edit(answer)
        except SubagentsError as refused:
            told, final = refused.reason, not isinstance(refused, StoreUnavailable)
            counted["refused: turns are pinned"] += "pinned_turns" in refused.metadata
            counted["refused: the configuration needs it"] += "has to wait:" in refused.message
        except ConnectionLost:
            told, final = "nothing", False
        except Exception:  # noqa: BLE001  it is in the journal
            told = CRASH
        counted[f"told: {told}"] += 1
        return final

    async def _edit(self, answer: StepAnswer) -> bool:
        """Switch by hand what the answer says; returns whether that was done, and the step is to be asked for again."""
        self.around.counted["edited by hand"] += 1
        await asyncio.sleep(self.chance.uniform(0.0, 0.5))
        for edit in answer.edits:
            name, on = edit.split()[-2:]
            self.around.flags.set(name, on == "on")
        await asyncio.sleep(self.chance.uniform(0.0, 1.5))
        return True


@dataclass(slots=True)
class TurnTaker:
    """Somebody whose turn is bound, and goes on for a while."""

    plan: TurnPlan
    around: Around
    fleet: Fleet

    async def run(self) -> None:
        """Bind it; look at it again later, here and elsewhere."""
        plan, loop = self.plan, self.around.loop
        await until(loop, plan.at)
        here = self.fleet.at(plan.place)
        if not here.ready:
            return
        token = await self._asked(here, self._bind(here, again=False))
        if token and plan.calls:
            self._call(here)
        for at in plan.again:
            await until(loop, at)
            if token:
                await self._asked(here, self._bind(here, again=True))
                await self._asked(self.fleet.at(1 - plan.place), self._honour(self.fleet.at(1 - plan.place), token))
        if plan.ends:
            await until(loop, plan.ends)
            self._end()

    def _call(self, replica: Replica) -> None:
        """Put the turn on record, as its first dispatch does."""
        turn = replica.turns.known(TurnId(self.plan.turn))
        if turn is not None:
            self.around.called[self.plan.turn] = OpenTurn(turn.turn_id, msgspec.json.encode(turn.claims).decode())
            self.around.journal.add(Called(self.plan.turn))

    def _end(self) -> None:
        """Let the turn have ended for everybody."""
        self.around.called.pop(self.plan.turn, None)
        for replica in self.fleet.all:
            turn = replica.turns.known(TurnId(self.plan.turn))
            if turn is not None:
                replica.turns.forget(turn)
        self.around.journal.add(Ended(self.plan.turn))

    async def _asked(self, replica: Replica, work: Any) -> str:
        if not replica.ready:
            work.close()
            return ""
        try:
            told: str = await replica.process.ask(work, f"turn {self.plan.turn}", 2.0)
        except ConnectionLost:
            return ""
        return told

    async def _bind(self, replica: Replica, *, again: bool) -> str:
        shows = replica.operations.views.current().version
        try:
            bound = await replica.bind_turn(request_of(self.plan.turn, self.plan.user, self.plan.arm))
        except SubagentsError as refused:
            self._note(replica, (), shows, again=again, reason=refused.reason)
            return ""
        self._note(replica, _served(bound.surface), shows, again=again)
        return bound.surface_token

    async def _honour(self, replica: Replica, token: str) -> str:
        shows = replica.operations.views.current().version
        try:
            turn = replica.turn_of(token)
        except SubagentsError as refused:
            self._note(replica, (), shows, by_token=True, reason=refused.reason)
            return ""
        self._note(replica, _served(turn.surface), shows, by_token=True)
        return ""

    def _note(
        self,
        replica: Replica,
        serves: tuple[tuple[str, str], ...],
        shows: int,
        *,
        again: bool = False,
        by_token: bool = False,
        reason: str = "",
    ) -> None:
        self.around.journal.add(
            Bound(
                life=replica.life,
                turn=self.plan.turn,
                user=self.plan.user,
                arm=self.plan.arm,
                shows=shows,
                serves=serves,
                variants=replica.loaded.variants,
                wall=self.around.contents.wall,
                again=again,
                by_token=by_token,
                reason=reason,
            )
        )


def _served(surface: Any) -> tuple[tuple[str, str], ...]:
    return tuple((str(tool.slot), str(tool.card.digest)) for tool in surface.tools)
