"""Makes a schedule of the suite `questions`: turns whose sub-agents ask back, and turns that answer, rightly or not.

The world is that of the suite `record`: one or two sidecars on one record, which are killed, paused and started again.
"""

import json
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Final

from sidecar.core.definitions.cards.card import Card
from sidecar.operations.requests import OnDisconnect
from tests.support.simulation.cards import POOL, arguments_for
from tests.support.simulation.record.generating import CALM_AFTER
from tests.support.simulation.record.schedule import Blow, Close, Mishap, RecordDispatch, RecordSchedule, RecordTurn
from tests.support.simulation.schedule import AnswerSpec, CallKind, CallSpec
from tests.support.simulation.scripts import AttemptScript, CallScript, Do, End, Step
from tests.support.simulation.store import StoreFaults

SUITE: Final = "questions"


def questions_schedule(seed: int) -> RecordSchedule:
    """Return what the seed stands for."""
    return _Generator(seed).schedule()


class _Generator:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = Random(f"{SUITE}:{seed}")
        self._scripts: dict[str, CallScript] = {}
        self._cards = tuple(self._chance.sample(POOL, 2))
        self._shared = self._chance.random() < 0.7

    def schedule(self) -> RecordSchedule:
        chance = self._chance
        asking = [self._asking(number) for number in range(chance.choice((1, 1, 2)))]
        answering = [self._answering(turn, number) for turn in asking for number in range(chance.choice((1, 2, 2, 3)))]
        if len(answering) > 1 and chance.random() < 0.5:  # at the same time
            answering[1] = replace(answering[1], bind_at=answering[0].bind_at)
        jumps = ((chance.uniform(0, 5), chance.choice((-3600.0, 3600.0))),) if chance.random() < 0.1 else ()
        return RecordSchedule(
            suite=SUITE,
            seed=self._seed,
            shared=self._shared,
            memory_lasts=False,
            cards=self._cards,
            turns=(*asking, *answering),
            scripts=self._scripts,
            faults=StoreFaults() if chance.random() < 0.5 else StoreFaults(0.03, 0.05, 0.03, 0.05, 0.04, ()),
            mishaps=tuple(self._mishap() for _ in range(chance.choice((0, 0, 1, 2)))),
            clock_jumps=jumps,
            # A wrong clock makes clients bind again, and another version would then be another binding.
            replaced_at=chance.uniform(0.5, 4.0) if chance.random() < 0.3 and not jumps else None,
        )

    def _mishap(self) -> Mishap:
        chance = self._chance
        blow = chance.choice((Blow.KILL, Blow.PAUSE, Blow.CUT_BEFORE, Blow.CUT_AFTER))
        at = chance.uniform(0.0, CALM_AFTER - 1)
        if blow in (Blow.CUT_BEFORE, Blow.CUT_AFTER):
            at = float(chance.randint(1, 12))
        return Mishap(chance.randint(0, 1) if self._shared else 0, blow, at, chance.choice((0.2, 1.0, 4.0)))

    def _asking(self, number: int) -> RecordTurn:
        chance, name, card = self._chance, f"a{number}", self._chance.choice(self._cards)
        ends, asks = chance.choice(
            (((End.FINISH,), True), ((End.FINISH,), True), ((End.TRANSIENT, End.FINISH), True), ((End.FINISH,), False))
        )
        lasts = chance.choice((None, None, timedelta(seconds=chance.uniform(0.5, 3.0))))
        call = self._call(f"{name}.d0.c0", card, ends, asks=asks, lasts=lasts)
        return self._turn(name, call, chance.uniform(0.0, 0.3), f"user{number}", "e0")

    def _answering(self, asking: RecordTurn, number: int) -> RecordTurn:
        chance, (asked,) = self._chance, asking.dispatches[0].calls
        name = f"{asking.turn_id}b{number}"
        card = asked.card if chance.random() < 0.9 else chance.choice(self._cards)
        assert card is not None
        spec = AnswerSpec(asked.key, approved=chance.random() < 0.8, by_model=chance.random() < 0.1)
        call = replace(self._call(f"{name}.d0.c0", card, (chance.choice((End.FINISH, End.TRANSIENT)),)), answers=spec)
        principal = asking.principal if chance.random() < 0.85 else "somebody else"
        episode = asking.episode_id if chance.random() < 0.9 else "another"
        return self._turn(name, call, chance.uniform(0.8, 4.5), principal, episode)

    def _turn(self, name: str, call: CallSpec, bind_at: float, principal: str, episode: str) -> RecordTurn:
        chance = self._chance
        leaves = (chance.uniform(0.0, 1.0),) if chance.random() < 0.2 else ()
        dispatch = RecordDispatch(f"{name}.d0", 0.0, (call,), None, OnDisconnect.CONTINUE, None, leaves)
        return RecordTurn(
            turn_id=name,
            episode_id=episode,
            principal=principal,
            bind_at=bind_at,
            place=chance.randint(0, 1) if self._shared else 0,
            fickle=chance.choice((0.0, 0.3)),
            dispatches=(dispatch,),
            closes=None,
            close=chance.choice((Close.ENDS, Close.ENDS, Close.ENDS, Close.LOST)),
            stops_at=bind_at + chance.uniform(0.5, 3.0),
        )

    def _call(
        self, key: str, card: Card, ends: tuple[End, ...], *, asks: bool = False, lasts: timedelta | None = None
    ) -> CallSpec:
        chance = self._chance
        wait = Step(Do.WAIT, chance.choice((0.0, chance.uniform(0.0, 0.5))))
        self._scripts[key] = CallScript(
            tuple(
                AttemptScript(
                    (wait, Step(Do.NARRATE, 0, f"{key} try {number}. ")), end, asks and end is End.FINISH, lasts
                )
                for number, end in enumerate(ends, 1)
            )
        )
        tool = f"ask_{card.definition.slot}"
        return CallSpec(key, key.rpartition(".")[2], CallKind.FIT, tool, json.dumps(arguments_for(card, key)), card)
