"""Makes a schedule of the suite `record` from a seed. Small on purpose: many short runs find most."""

import json
from dataclasses import replace
from random import Random
from typing import Final

from sidecar.core.definitions.cards.card import Card
from sidecar.operations.requests import OnDisconnect
from tests.support.simulation.cards import EFFECT_TOOL, IDEMPOTENT_TOOL, POOL, arguments_for
from tests.support.simulation.record.fleet import LEASE
from tests.support.simulation.record.schedule import (
    Blow,
    Close,
    Mishap,
    RecordDispatch,
    RecordSchedule,
    RecordTurn,
)
from tests.support.simulation.schedule import CallKind, CallSpec
from tests.support.simulation.scripts import AttemptScript, CallScript, Do, End, Step
from tests.support.simulation.store import StoreFaults

SUITE: Final = "record"
CALM_AFTER: Final = 6.0
"""When nothing new goes wrong any more."""
ENDS: Final = (End.FINISH,) * 7 + (End.TRANSIENT,) * 3 + (End.FATAL, End.HANG, End.FINISH_WITHOUT_DATA)


def record_schedule(seed: int) -> RecordSchedule:
    """Return what the seed stands for."""
    return _Generator(seed).schedule()


class _Generator:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = Random(f"{SUITE}:{seed}")
        self._scripts: dict[str, CallScript] = {}
        self._cards = tuple(self._chance.sample(POOL, 3))
        self._shared = self._chance.random() < 0.6

    def schedule(self) -> RecordSchedule:
        chance = self._chance
        turns, pauses = self._with_pauses(tuple(self._turn(number) for number in range(chance.choice((1, 1, 2)))))
        turns, restarts = self._with_restarts(self._with_cancels(turns))
        jumps = tuple((chance.uniform(0, 5), chance.choice((-3600.0, 3600.0))) for _ in range(chance.choice((0, 0, 1))))
        return RecordSchedule(
            suite=SUITE,
            seed=self._seed,
            shared=self._shared,
            memory_lasts=chance.random() < 0.5,
            cards=self._cards,
            turns=turns,
            scripts=self._scripts,
            faults=self._faults(),
            mishaps=(
                *(self._mishap() for _ in range(chance.choice((0, 1, 1, 2, 3)))),
                *self._stops(),
                *pauses,
                *restarts,
            ),
            clock_jumps=jumps,
        )

    def _faults(self) -> StoreFaults:
        chance = self._chance
        begin = chance.uniform(0.0, 4.0)
        full = ((begin, begin + chance.uniform(0.2, 2.0)),) if chance.random() < 0.25 else ()
        if chance.random() < 0.4:
            return StoreFaults(full=full)
        return StoreFaults(0.04, 0.08, 0.03, 0.06, 0.05, full)

    def _mishap(self) -> Mishap:
        chance = self._chance
        blow = chance.choice((Blow.KILL, Blow.PAUSE, Blow.CUT_BEFORE, Blow.CUT_AFTER))
        at = chance.uniform(0.0, CALM_AFTER - 1)
        if blow in (Blow.CUT_BEFORE, Blow.CUT_AFTER):
            at = float(chance.randint(1, 9))
        lasts = chance.choice((0.2, chance.uniform(0.2, 2.0), chance.uniform(2.0, 5.0)))
        return Mishap(chance.randint(0, 1) if self._shared else 0, blow, at, lasts)

    def _stops(self) -> tuple[Mishap, ...]:
        """Return a stop as by SIGTERM, or none."""
        beside = Random(f"stops {SUITE}:{self._seed}")
        if beside.random() < 0.7:
            return ()
        place = beside.randint(0, 1) if self._shared else 0
        return (Mishap(place, Blow.STOP, beside.uniform(0.0, CALM_AFTER - 1), beside.choice((0.2, 2.0))),)

    def _with_pauses(self, turns: tuple[RecordTurn, ...]) -> tuple[tuple[RecordTurn, ...], tuple[Mishap, ...]]:
        """Return the turns, and perhaps a pause beyond the lease while the first one works; its client goes elsewhere.

        By chance alone that is rare: a client that waits for the paused sidecar until it goes on takes nothing over.
        """
        beside = Random(f"pauses {SUITE}:{self._seed}")
        if not self._shared or beside.random() < 0.7:
            return turns, ()
        first, *others = turns
        dispatches = tuple(replace(each, leaves=(beside.uniform(0.3, 1.5), *each.leaves)) for each in first.dispatches)
        pause_at = first.bind_at + min(each.send_at for each in dispatches) + beside.uniform(0.1, 1.0)
        pause = Mishap(first.place, Blow.PAUSE, pause_at, LEASE + beside.uniform(0.5, 3.0))
        return (replace(first, dispatches=dispatches), *others), (pause,)

    def _with_restarts(self, turns: tuple[RecordTurn, ...]) -> tuple[tuple[RecordTurn, ...], tuple[Mishap, ...]]:
        """Return the turns, and perhaps a kill after the first one closed its children; it is bound again for its end.

        By chance alone that is rare: a sidecar that was asked for the turn with its token has read it from the record.
        """
        beside = Random(f"restarts {SUITE}:{self._seed}")
        if self._shared or beside.random() < 0.8:
            return turns, ()
        first, *others = turns
        killed_at = beside.uniform(3.0, CALM_AFTER - 1)
        first = replace(first, closes=beside.random() < 0.7, binds_again_at=killed_at + 0.5)
        return (first, *others), (Mishap(0, Blow.KILL, killed_at, 0.2),)

    def _with_cancels(self, turns: tuple[RecordTurn, ...]) -> tuple[RecordTurn, ...]:
        """Return the turns, and perhaps with a cancelled call in each of their dispatches."""
        beside = Random(f"cancels {SUITE}:{self._seed}")
        if beside.random() < 0.75:
            return turns
        return tuple(
            replace(
                turn,
                dispatches=tuple(
                    replace(each, cancels=((beside.choice(each.calls).call_id, beside.uniform(0.05, 2.0)),))
                    for each in turn.dispatches
                ),
            )
            for turn in turns
        )

    def _turn(self, number: int) -> RecordTurn:
        chance = self._chance
        bind_at = chance.uniform(0, 0.5)
        name = f"t{number}"
        return RecordTurn(
            turn_id=name,
            episode_id=f"e{chance.randint(0, 1)}",
            principal=f"user{number}",
            bind_at=bind_at,
            place=chance.randint(0, 1) if self._shared else 0,
            fickle=chance.choice((0.0, 0.3, 0.9)),
            dispatches=tuple(self._dispatch(f"{name}.d{index}") for index in range(chance.choice((1, 1, 2)))),
            closes=chance.choice((None, None, None, True, False)),
            close=chance.choice((Close.ENDS, Close.ENDS, Close.ENDS, Close.TWICE, Close.EARLY, Close.LOST)),
            stops_at=bind_at + chance.uniform(0.0, 4.0),
        )

    def _dispatch(self, name: str) -> RecordDispatch:
        chance = self._chance
        leaves = tuple(chance.uniform(0.0, 1.5) for _ in range(chance.choice((0, 0, 1, 2))))
        return RecordDispatch(
            dispatch_id=name,
            send_at=chance.choice((0.0, chance.uniform(0.0, 2.0))),
            calls=tuple(self._call(f"{name}.c{index}") for index in range(chance.choice((1, 1, 2, 3)))),
            max_parallel=chance.choice((None, None, 1)),
            on_disconnect=chance.choice(tuple(OnDisconnect)),
            continue_for=chance.uniform(0.1, 2.0),
            leaves=leaves,
        )

    def _call(self, key: str) -> CallSpec:
        chance = self._chance
        call_id = key.rpartition(".")[2]
        if chance.random() < 0.06:
            return CallSpec(key, call_id, CallKind.UNKNOWN_TOOL, "ask_nobody", "{}", None)
        card = chance.choice(self._cards)
        self._scripts[key] = self._script(card, key)
        tool = f"ask_{card.definition.slot}"
        return CallSpec(key, call_id, CallKind.FIT, tool, json.dumps(arguments_for(card, key)), card)

    def _script(self, card: Card, key: str) -> CallScript:
        attempts = range(1 + card.definition.limits.max_retries)
        changes = self._changes(key)
        made = [self._attempt(f"{key} try {number + 1}. ") for number in attempts]
        return CallScript(tuple(replace(each, steps=(*each.steps[:1], *changes, *each.steps[1:])) for each in made))

    def _changes(self, key: str) -> tuple[Step, ...]:
        """Return the tool calls of a call that change something; each of its attempts makes them all."""
        beside = Random(f"effects {SUITE}:{self._seed}:{key}")
        if beside.random() < 0.5:
            return ()
        takes = beside.choice((0.0, 0.1, beside.uniform(0.0, 1.5)))
        reply = beside.choice(("ok", "ok", "ok", "unavailable", "error"))
        tool = beside.choice((EFFECT_TOOL, EFFECT_TOOL, IDEMPOTENT_TOOL))
        return (Step(Do.TOOL, takes, f"{tool} {reply}"),)

    def _attempt(self, says: str) -> AttemptScript:
        chance = self._chance
        wait = Step(Do.WAIT, chance.choice((0.0, chance.uniform(0.0, 0.3), chance.uniform(0.0, 2.5))))
        steps = [wait, Step(Do.NARRATE, 0, says)]
        if chance.random() < 0.3:
            steps.insert(chance.randint(0, 2), Step(Do.STATUS, 1, "searching_offers"))
        if chance.random() < 0.3:
            tool = (
                f"{chance.choice(('notes', 'offers'))} {chance.choice(('ok', 'ok', 'unavailable', 'wrong principal'))}"
            )
            steps.insert(chance.randint(0, 2), Step(Do.TOOL, chance.choice((0.0, 0.2, 1.0)), tool))
        return AttemptScript(tuple(steps), chance.choice(ENDS))
