"""Makes a schedule from a seed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from sidecar.core.definitions.cards.card import Card
from sidecar.operations.requests import OnDisconnect
from tests.support.simulation.cards import DATA_TOOLS, LOCAL_TOOL, POOL, arguments_for
from tests.support.simulation.connector import REPLIES, worse
from tests.support.simulation.runner import STUBBORN
from tests.support.simulation.schedule import (
    Act,
    Action,
    CallKind,
    CallSpec,
    DispatchSpec,
    Ending,
    Schedule,
    Tuning,
    TurnSpec,
)
from tests.support.simulation.scripts import AttemptScript, CallScript, Do, End, Step
from tests.support.simulation.store import StoreFaults

STATUS_TYPES: Final = ("searching_offers", "thinking_hard", "still_working", "checking_stock", "no_such_type")
BAD_ARGUMENTS: Final = ("", "[1]", "{", '{"request": 5}', '{"request": "x", "extra": 1}', "[" * 3000)


@dataclass(frozen=True, slots=True)
class Suite:
    """How much of what. Shares from 0 to 1."""

    name: str
    bad_ends: float
    tools: float
    acts: float
    store: float
    rough_ends: float
    leaves: float = 0.0


SUITES: Final[Mapping[str, Suite]] = {
    "turns": Suite("turns", bad_ends=0.35, tools=0.15, acts=0.5, store=0.15, rough_ends=0.4),
    "faults": Suite("faults", bad_ends=0.7, tools=0.1, acts=0.9, store=1.0, rough_ends=0.7),
    "gateway": Suite("gateway", bad_ends=0.3, tools=0.9, acts=0.25, store=0.1, rough_ends=0.3),
    "rpc": Suite("rpc", bad_ends=0.4, tools=0.1, acts=0.9, store=0.3, rough_ends=0.6, leaves=0.4),
    "lane": Suite("lane", bad_ends=0.4, tools=0.1, acts=0.9, store=0.3, rough_ends=0.6, leaves=0.4),
}


def schedule_of(suite_name: str, seed: int) -> Schedule:
    """Return what the seed stands for."""
    return _Generator(SUITES[suite_name], seed).schedule()


class _Generator:
    def __init__(self, suite: Suite, seed: int) -> None:
        self._suite = suite
        self._seed = seed
        self._chance = Random(f"{suite.name}:{seed}")
        self._scripts: dict[str, CallScript] = {}
        self._cards = tuple(self._chance.sample(POOL, self._chance.randint(2, 5)))

    def schedule(self) -> Schedule:
        chance, suite = self._chance, self._suite
        turns = tuple(self._turn(number) for number in range(chance.choice((2, 2, 2, 3, 3, 4, 5))))
        faulty = chance.random() < suite.store
        begin = chance.uniform(0.0, 6.0)
        full = ((begin, begin + chance.uniform(0.2, 1.5)),) if chance.random() < 0.3 else ()
        faults = StoreFaults(0.03, 0.03, 0.03, 0.05, 0.2, full) if faulty else StoreFaults()
        jumps = tuple((chance.uniform(0, 8), chance.choice((-3600.0, 3600.0))) for _ in range(chance.choice((0, 0, 1))))
        return Schedule(
            suite=suite.name,
            seed=self._seed,
            tuning=self._tuning(),
            cards=self._cards,
            turns=turns,
            scripts=self._scripts,
            store_faults=faults,
            clock_jumps=jumps,
            drain_at=chance.uniform(0.0, 3.0) if chance.random() < 0.05 else None,
        )

    def _tuning(self) -> Tuning:
        chance, beside = self._chance, Random(f"idle {self._suite.name}:{self._seed}")
        return Tuning(
            cap=chance.randint(1, 4),
            max_dispatches=chance.choice((2, 3, 3)),
            admission=chance.choice((256, 256, 256, 2)),
            turns=chance.choice((1000, 1000, 1000, 2)),
            idle_turns=beside.choice((1000, 1000, 1000, 1)),
            idle_for=beside.choice((60.0, 60.0, 60.0, 3.0)),
            strict=chance.random() < 0.2,
            stingy=chance.random() < 0.25,
            replay_buffer_events=chance.choice((1024, 1024, 6)),
        )

    def _turn(self, number: int) -> TurnSpec:
        chance = self._chance
        rough = chance.random() < self._suite.rough_ends
        bind_at = chance.uniform(0, 2)
        return TurnSpec(
            turn_id=f"t{number}",
            episode_id=f"e{chance.randint(0, 2)}",
            principal=f"user{number % 3}",
            bind_at=bind_at,
            dispatches=tuple(self._dispatch(f"t{number}.d{index}") for index in range(chance.choice((1, 1, 2, 3)))),
            ending=chance.choice(tuple(Ending)) if rough else Ending.AFTER_ALL,
            end_at=bind_at + chance.uniform(0.0, 6.0),
        )

    def _dispatch(self, name: str) -> DispatchSpec:
        chance = self._chance
        calls = tuple(self._call(f"{name}.c{index}") for index in range(chance.choice((1, 1, 2, 2, 3, 4, 5, 6))))
        acts = chance.randint(1, 3) if chance.random() < self._suite.acts else 0
        return DispatchSpec(
            dispatch_id=name,
            send_at=chance.choice((0.0, chance.uniform(0.0, 4.0))),
            calls=calls,
            time_left=chance.choice((None, 60.0, 60.0, chance.uniform(0.5, 5.0), chance.uniform(0.05, 0.5))),
            join_timeout=chance.choice((None, None, chance.uniform(0.5, 5.0))),
            max_parallel=chance.choice((None, None, 1, 2)),
            min_success=chance.choice((None, 0, 1)),
            on_disconnect=chance.choice(tuple(OnDisconnect)),
            continue_for=chance.uniform(0.1, 2.0),
            slow=chance.choice((0.0, 0.0, 0.0, chance.uniform(0.1, 2.0))),
            prior_context=chance.choice(("", "they want shoes")),
            actions=tuple(sorted((self._action() for _ in range(acts)), key=lambda action: action.after)),
        )

    def _action(self) -> Action:
        chance = self._chance
        if self._suite.leaves and chance.random() < self._suite.leaves:
            return Action(chance.uniform(0.0, 0.5), Act.DISCONNECT, 0, 0.0)
        after = chance.choice((0.0, chance.uniform(0.0, 0.01), chance.uniform(0.0, 4.0)))
        slow = chance.choice((0.0, 0.0, chance.uniform(0.1, 1.0)))
        return Action(after, chance.choice(tuple(Act)), chance.randint(0, 6), slow)

    def _call(self, key: str) -> CallSpec:
        chance = self._chance
        call_id, draw = key.rpartition(".")[2], chance.random()
        if draw < 0.06:
            tool = chance.choice(("ask_nobody", "", "ask_" + "x" * 200, f"ASK_{self._cards[0].definition.slot}"))
            return CallSpec(key, call_id, CallKind.UNKNOWN_TOOL, tool, "{}", None)
        card = chance.choice(self._cards)
        tool = f"ask_{card.definition.slot}"
        if draw < 0.12:
            return CallSpec(key, call_id, CallKind.BAD_ARGUMENTS, tool, chance.choice(BAD_ARGUMENTS), None)
        self._scripts[key] = self._script(card)
        return CallSpec(key, call_id, CallKind.FIT, tool, json.dumps(arguments_for(card, key)), card)

    def _script(self, card: Card) -> CallScript:
        return CallScript(tuple(self._attempt() for _ in range(1 + card.definition.limits.max_retries)))

    def _attempt(self) -> AttemptScript:
        chance = self._chance
        bad = chance.random() < self._suite.bad_ends
        end = chance.choice(tuple(End)) if bad else End.FINISH
        steps = [self._step(bad=bad) for _ in range(chance.choice((1, 2, 2, 3, 4, 6)))]
        return AttemptScript(tuple(steps), end)

    def _step(self, *, bad: bool) -> Step:
        chance = self._chance
        if chance.random() < self._suite.tools:
            return self._tool_step()
        usual = (
            (35, Step(Do.WAIT, chance.choice((0.0, chance.uniform(0.0, 0.2), chance.uniform(0.0, 2.5))))),
            (25, Step(Do.STATUS, 1, chance.choice(STATUS_TYPES))),
            (15, Step(Do.NARRATE, 0, "so it is. ")),
            (10, Step(Do.COMPONENT)),
            (15, Step(Do.USAGE, chance.choice((100, 400, 900)))),
        )
        if bad and chance.random() < 0.08:
            bad_step = chance.choice((Do.FLOOD, Do.OVERSIZE, Do.LYING_COMPONENT, Do.USAGE))
            return Step(bad_step, 2000, "x" * 5000 if bad_step is Do.OVERSIZE else "searching_offers")
        return chance.choices([step for _, step in usual], [weight for weight, _ in usual])[0]

    def _tool_step(self) -> Step:
        chance = self._chance
        tool = chance.choice((*DATA_TOOLS, *DATA_TOOLS, *DATA_TOOLS, LOCAL_TOOL, "nobodys_tool"))
        reply = "ok" if chance.random() < 0.35 else chance.choice(REPLIES)
        takes = chance.choice((0.0, chance.uniform(0.0, 0.4), chance.uniform(0.0, 3.0)))
        return Step(Do.TOOL, takes, f"{tool} {worse(reply, takes)}{STUBBORN if chance.random() < 0.1 else ''}")
