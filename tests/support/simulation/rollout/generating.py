"""Makes a schedule of the suite `rollout` from a seed. Small on purpose: many short runs find most."""

from itertools import count
from random import Random
from typing import Final

from tests.support.simulation.rollout import cards, model
from tests.support.simulation.rollout.model import Slot
from tests.support.simulation.rollout.model_serving import bucket
from tests.support.simulation.rollout.picking import BREAKER, BUILDER, OPERATOR, WILD, pick
from tests.support.simulation.rollout.schedule import (
    Blow,
    Errand,
    Faults,
    Flip,
    Mishap,
    Outage,
    RolloutSchedule,
    TurnPlan,
    Whom,
)
from tests.support.simulation.rollout.wishes import Wish

SUITE: Final = "rollout"
CALM_AFTER: Final = 4.2
"""When nothing new goes wrong any more."""
USERS: Final = tuple(
    next(user for number in count(1) if low <= bucket(slot, user := f"user-{number}") < high)
    for slot in cards.SLOTS
    for low, high in ((0, 100), (0, 100), (100, 500), (500, 2500), (2500, 5000), (9000, 10_000))
)
"""Some are inside small ramps, some outside all but the whole."""
CURVE: Final = (100, 500, 2500, 5000, 9000, 10_000)


def rollout_schedule(seed: int) -> RolloutSchedule:
    """Return what the seed stands for."""
    return _Generator(seed).schedule()


def slots_at_the_beginning(chance: Random, variants: cards.Variants) -> tuple[Slot, ...]:
    """Return slots as the rules may have made them, from a configuration and whatever was asked so far."""
    curve = CURVE if chance.random() < 0.3 else ()
    slots = {name: Slot(name, curve=curve, experiment=chance.random() < 0.7) for name in cards.SLOTS}
    for name, card in cards.cards_for_the_model(variants):
        slots[name] = model.see(slots[name], card).after or slots[name]
    built, worn = chance.choice(((0, 0), (4, 0), (8, 0), (12, 0), (16, 0), (16, 2), (10, 6)))
    for role in (BUILDER,) * built + (OPERATOR,) * worn:
        picked = pick(chance, tuple(slots.values()), role, 0.0)
        if picked is None:
            break
        slot = slots[cards.SLOT_OF[picked.name]]
        wish = Wish("before", picked.kind, picked.name, "ada", "before", picked.content, **picked.said)
        slots[slot.name] = model.decide(slot, wish, 0.0).after or slot
    return tuple(each for each in slots.values() if each.definitions)


def flags_at_the_beginning(chance: Random, slots: tuple[Slot, ...]) -> tuple[str, ...]:
    """Return the flags that are on: those that were switched on, but for one that fell lately."""
    on = []
    for each in (one for slot in slots for one in slot.definitions):
        if each.flag is not None and each.flags == "on":
            on += [each.flag] * (chance.random() < 0.95 and not each.killed)
            on += [f"{each.flag}_cohort"] * (chance.random() < 0.95)
    return tuple(on)


class _Generator:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._chance = Random(f"{SUITE}:{seed}")

    def schedule(self) -> RolloutSchedule:
        chance = self._chance
        catalogues = self._catalogues()
        slots = slots_at_the_beginning(chance, catalogues[0][1])
        errands = chance.choice((5, 8, 11))
        unseen = self._fall_that_nobody_sees() if chance.random() < 0.15 else ((), ())
        return RolloutSchedule(
            suite=SUITE,
            seed=self._seed,
            embedded=chance.random() < 0.5,
            read_only=chance.random() < 0.12,
            slots=slots if chance.random() < 0.9 else (),
            flags_on=flags_at_the_beginning(chance, slots),
            catalogues=catalogues,
            largest_step=chance.choice((0, 0, 4000)),
            legal_from=chance.choice((0, 0, 5000)),
            errands=tuple(self._errand(number) for number in range(errands)),
            turns=tuple(self._turn(number) for number in range(chance.choice((12, 18)))),
            flips=(*(self._flip() for _ in range(chance.choice((0, 1, 2, 3)))), *unseen[0]),
            outages=(*(self._outage() for _ in range(chance.choice((0, 1, 2, 3)))), *unseen[1]),
            mishaps=tuple(self._mishap() for _ in range(chance.choice((0, 0, 1, 2)))),
            jumps=tuple(
                (chance.uniform(0, 4), chance.choice((-60.0, 40.0, 700.0))) for _ in range(chance.choice((0, 0, 1)))
            ),
            faults=self._faults(),
        )

    def _catalogues(self) -> tuple[tuple[float, cards.Variants], ...]:
        chance = self._chance
        names = [*cards.NAMES["shop"][chance.randint(0, 1) :], *cards.NAMES["perks"][: chance.randint(0, 2)]]
        variants = dict.fromkeys(names, cards.BASE)
        found = [(0.0, tuple(variants.items()))]
        for _ in range(chance.choice((0, 0, 1, 2))):
            name = chance.choice(names)
            variant = chance.choice((*cards.VARIANTS, cards.MINOR, cards.MINOR, ""))
            variants = {**variants, name: variant}
            found.append((chance.uniform(0.2, 4.0), tuple((each, one) for each, one in variants.items() if one)))
        return tuple(sorted(found, key=lambda each: each[0]))

    def _faults(self) -> Faults:
        chance = self._chance
        if chance.random() < 0.4:
            return Faults(gate_wrong=0.1)
        return Faults(store_refuses=0.02, store_forgets=0.06, store_slow=0.02, gate_wrong=0.2, policy_broken=0.05)

    def _errand(self, number: int) -> Errand:
        chance = self._chance
        return Errand(
            number=number,
            at=chance.choice((chance.uniform(0.1, 3.9), round(chance.uniform(0.2, 3.9), 0))),
            subject=chance.choice(("ada", "bob")),
            place=chance.randint(0, 1),
            fickle=chance.choice((0.0, 0.5)),
            role=chance.choice((OPERATOR,) * 7 + (BREAKER, WILD)),
            twice=chance.random() < 0.15,
            stale=chance.random() < 0.05,
            again=chance.random() < 0.2,
            reuses=chance.random() < 0.04,
            patience=chance.choice((5.0, 5.0, chance.uniform(0.01, 3.0))),
        )

    def _turn(self, number: int) -> TurnPlan:
        chance = self._chance
        at = chance.uniform(0.1, 5.0)
        again = (at + chance.uniform(0.1, 3.0),) if chance.random() < 0.3 else ()
        user = chance.choice((*USERS, *USERS, *USERS, ""))
        return TurnPlan(
            f"t{number}", at, user, chance.choice(("", "", "control", "treatment")), chance.randint(0, 1), again
        )

    def _flip(self) -> Flip:
        chance = self._chance
        name = chance.choice([each for each in cards.SLOT_OF if each != cards.PLAIN])
        return Flip(chance.uniform(0.0, 4.0), cards.flag_of(name), chance.random() < 0.3, chance.random() < 0.4)

    def _fall_that_nobody_sees(self) -> tuple[tuple[Flip, ...], tuple[Outage, ...]]:
        """A kill flag is switched off while its backend is away for everybody."""
        chance = self._chance
        begin = chance.uniform(1.4, 2.0)
        end = begin + chance.uniform(1.3, 2.0)
        name = chance.choice([each for each in cards.SLOT_OF if each != cards.PLAIN])
        flip = Flip(chance.uniform(begin, end), cards.flag_of(name), cohort=False, on=False)
        return (flip,), tuple(Outage(Whom.FLAGS, place, begin, end, hangs=False) for place in (0, 1))

    def _outage(self) -> Outage:
        chance = self._chance
        begin = chance.uniform(0.0, 3.8)
        whom = chance.choice((Whom.STORE, Whom.STORE, Whom.FLAGS, Whom.FLAGS, *Whom))
        return Outage(whom, chance.randint(0, 1), begin, begin + chance.uniform(0.2, 3.0), chance.random() < 0.3)

    def _mishap(self) -> Mishap:
        chance = self._chance
        blow = chance.choice((Blow.KILL, Blow.KILL, Blow.PAUSE))
        return Mishap(chance.randint(0, 1), blow, chance.uniform(0.2, CALM_AFTER - 0.5), chance.uniform(0.1, 1.5))
