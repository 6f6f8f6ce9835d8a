"""Makes a schedule of the suite `rollout` from a seed. Small on purpose: many short runs find most."""

from dataclasses import replace
from itertools import count
from random import Random
from typing import Final

from tests.support.simulation.rollout import cards, model
from tests.support.simulation.rollout.model_serving import bucket
from tests.support.simulation.rollout.model_values import Slot
from tests.support.simulation.rollout.picking import BREAKER, BUILDER, KILLER, LEAVER, OPERATOR, WILD, pick
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
STAGES: Final = (
    (cards.BASE,),
    (cards.DEPRECATED, ""),
    (cards.DEPRECATED, cards.BLOCKS_LEFT),
    (cards.BLOCKS_LEFT,),
    (cards.TOOLS_LEFT,),
    ("",),
)
"""What is left of a definition's entry, stage by stage of its decommission."""
LAST_STAGE: Final = len(STAGES) - 1
CURVE: Final = (100, 500, 2500, 5000, 9000, 10_000)


def rollout_schedule(seed: int) -> RolloutSchedule:
    """Return what the seed stands for."""
    return _Generator(seed).schedule()


def slots_at_the_beginning(
    chance: Random, variants: cards.Variants, leavers: int = 0, *, at_once: bool = True
) -> tuple[Slot, ...]:
    """Return slots as the rules may have made them, from a configuration and whatever was asked so far.

    Args:
        chance: decides.
        variants: the configuration.
        leavers: how often somebody has taken a definition a step further away.
        at_once: an entry without a flag served everybody as soon as it was seen.
    """
    curve = CURVE if chance.random() < 0.3 else ()
    slots = {name: Slot(name, curve=curve, experiment=chance.random() < 0.7) for name in cards.SLOTS}
    for name, card in cards.cards_for_the_model(variants):
        slots[name] = model.see(slots[name], card, at_once=at_once).after or slots[name]
    built, worn = chance.choice(((0, 0), (4, 0), (8, 0), (12, 0), (16, 0), (16, 2), (10, 6)))
    for role in (BUILDER,) * built + (OPERATOR,) * worn + (LEAVER,) * leavers:
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
        self._leaving = self._chance.random() < 0.28
        settings = Random(f"{SUITE}:{seed}:settings")
        self._at_once = settings.random() < 0.8
        self._plain_first = settings.uniform(0.2, 2.5) if settings.random() < 0.25 else 0.0
        self._at_once_before = self._at_once and settings.random() < 0.8

    def schedule(self) -> RolloutSchedule:
        chance = self._chance
        catalogues = self._catalogues()
        leavers = chance.choice((0, 0, 1, 3, 5, 8, 12)) * self._leaving
        slots = slots_at_the_beginning(chance, catalogues[0][1], leavers, at_once=self._at_once_before)
        if self._leaving:
            catalogues = self._catalogues_without_who_goes(catalogues[0][1], slots)
        errands = chance.choice((5, 8, 11))
        unseen = self._fall_that_nobody_sees() if chance.random() < 0.15 else ((), ())
        alone = self._kill_that_one_sidecar_holds(errands) if chance.random() < 0.08 else ((), (), ())
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
            errands=(*(self._errand(number) for number in range(errands)), *alone[0]),
            turns=tuple(self._turn(number) for number in range(chance.choice((12, 18)))),
            flips=(*(self._flip() for _ in range(chance.choice((0, 1, 2, 3)))), *unseen[0]),
            outages=(*(self._outage() for _ in range(chance.choice((0, 1, 2, 3)))), *unseen[1], *alone[1]),
            mishaps=(*(self._mishap() for _ in range(chance.choice((0, 0, 1, 2)))), *alone[2]),
            jumps=tuple(
                (chance.uniform(0, 4), chance.choice((-60.0, 40.0, 700.0))) for _ in range(chance.choice((0, 0, 1)))
            ),
            faults=self._faults(),
            window=chance.choice((0.8, 100.0, 90 * 24 * 3600.0)),
            at_once=self._at_once,
        )

    def _catalogues(self) -> tuple[tuple[float, cards.Variants], ...]:
        chance = self._chance
        names = [*cards.NAMES["shop"][chance.randint(0, 1) :], *cards.NAMES["perks"][: chance.randint(0, 2)]]
        variants = dict.fromkeys(names, cards.BASE)
        found = [(0.0, tuple(variants.items()))]
        if self._plain_first:  # alone in its slot, until others come
            variants = {cards.PLAIN: cards.BASE, **variants}
            alone = {
                name: each for name, each in variants.items() if cards.SLOT_OF[name] != "shop" or name == cards.PLAIN
            }
            found = [(0.0, tuple(alone.items())), (self._plain_first, tuple(variants.items()))]
            names = list(variants)
        for _ in range(chance.choice((0, 0, 1, 2))):
            name = chance.choice(names)
            variant = chance.choice((*cards.VARIANTS, cards.MINOR, cards.MINOR, ""))
            variants = {**variants, name: variant}
            found.append((chance.uniform(0.2, 4.0), tuple((each, one) for each, one in variants.items() if one)))
        return tuple(sorted(found, key=lambda each: each[0]))

    def _catalogues_without_who_goes(
        self, variants: cards.Variants, slots: tuple[Slot, ...]
    ) -> tuple[tuple[float, cards.Variants], ...]:
        """Return configurations out of which a definition goes bit by bit, as the patches of its decommission do it."""
        chance = self._chance
        served = [each for slot in slots for each in slot.definitions if each.content == slot.active]
        leaving = [each for slot in slots for each in slot.definitions if each.leaving is not None] or served
        if not leaving:
            return ((0.0, variants),)
        it = chance.choice(leaving)
        slot = cards.SLOT_OF[it.name]
        shared = any(name != it.name and cards.SLOT_OF[name] == slot for name, _ in variants)
        stays_listed = shared and chance.random() < 0.5
        gone = it.leaving.following if it.leaving is not None else 0
        stage = max(0, min(LAST_STAGE, gone - chance.choice((0, 0, 1, 1, 2))))
        others = {name: variant for name, variant in variants if name != it.name}
        found, at = [], 0.0
        for _ in range(chance.choice((1, 2, 3, 4))):
            own = chance.choice(STAGES[stage]) if chance.random() < 0.9 else cards.MINOR
            unlisted = {slot: cards.UNLISTED} if stage > 1 and not stays_listed else {}
            found.append((at, tuple({**others, **({it.name: own} if own else {}), **unlisted}.items())))
            at += chance.uniform(0.1, 1.5)
            stage = max(0, min(LAST_STAGE, stage + chance.choice((1, 1, 1, 2, -1))))
            if others and chance.random() < 0.2:
                others[chance.choice(list(others))] = chance.choice((cards.MINOR, cards.MAJOR, cards.DEPRECATED))
        return tuple(found)

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
            role=chance.choice(
                (OPERATOR,) * (4 if self._leaving else 7) + (LEAVER,) * 7 * self._leaving + (BREAKER, WILD)
            ),
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
        arm = chance.choice(("", "", "control", "treatment"))
        ends = max(at, *again, 0.0) + chance.uniform(0.05, 2.0) if chance.random() < 0.7 else 0.0
        return TurnPlan(f"t{number}", at, user, arm, chance.randint(0, 1), again, chance.random() < 0.3, ends)

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

    def _kill_that_one_sidecar_holds(
        self, number: int
    ) -> tuple[tuple[Errand, ...], tuple[Outage, ...], tuple[Mishap, ...]]:
        """Somebody kills at a sidecar that does not reach the store, and that is killed before it does."""
        chance = self._chance
        place, begin = chance.randint(0, 1), chance.uniform(0.6, 1.5)
        killed = begin + chance.uniform(0.4, 0.8)
        errand = replace(self._errand(number), role=KILLER, place=place, at=begin + 0.1, patience=5.0, reuses=False)
        outage = Outage(Whom.STORE, place, begin, killed + 0.1, hangs=False)
        return (errand,), (outage,), (Mishap(place, Blow.KILL, killed, chance.uniform(0.2, 0.6)),)

    def _outage(self) -> Outage:
        chance = self._chance
        begin = chance.uniform(0.0, 3.8)
        whom = chance.choice((Whom.STORE, Whom.STORE, Whom.FLAGS, Whom.FLAGS, *Whom))
        return Outage(whom, chance.randint(0, 1), begin, begin + chance.uniform(0.2, 3.0), chance.random() < 0.3)

    def _mishap(self) -> Mishap:
        chance = self._chance
        blow = chance.choice((Blow.KILL, Blow.KILL, Blow.PAUSE))
        return Mishap(chance.randint(0, 1), blow, chance.uniform(0.2, CALM_AFTER - 0.5), chance.uniform(0.1, 1.5))
