"""The rules of a rollout as REQUIREMENTS section 5.G and DESIGN section 8 put them: a plain state machine.

It is what the sidecar is compared with, and therefore imports nothing of it: not its functions, not its types, not its
words for things.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from tests.support.simulation.rollout import model_leaving, wishes
from tests.support.simulation.rollout.model_values import (
    BEFORE_FULL,
    BEFORE_MERGE,
    BEFORE_RAMP,
    BY_GATE,
    BY_KILL_SWITCH,
    BY_OPERATOR,
    EVERYBODY,
    Definition,
    Said,
    Slot,
    Waiver,
    refused,
)
from tests.support.simulation.rollout.wishes import Wish


def decide(slot: Slot, wish: Wish, now: float) -> Said:
    """Return what the rules make of a wish.

    Args:
        slot: as it stands.
        wish: whatever its revision, which is not looked at here.
        now: wall-clock seconds.
    """
    meant = slot.meant(wish)
    if meant is None:
        return refused("unknown")
    said = RULES[wish.kind](slot, meant, wish, now)
    if said.after is not None and said.after is not slot:
        said = replace(said, after=replace(said.after, revision=slot.revision + 1))
    return said


def to_test(slot: Slot, it: Definition, _wish: Wish, _now: float) -> Said:
    """`dev` to `test`: no gate (PF1-D-5)."""
    return _moved(slot, it, "test", BY_OPERATOR) if it.state == "dev" else refused(it.state)


def promote(slot: Slot, it: Definition, _wish: Wish, _now: float) -> Said:
    """`test` to `promote`: `pre_merge`, a flag that gates it, 0 % (PF1-FR-3a, TN-74, TN-75)."""
    if it.state != "test":
        return refused(it.state)
    if it.flag is None:
        return refused("no flag")
    fresh = replace(it, ramp=0, flags="created", waivers=_spent(it, 0))
    said = _moved(slot, fresh, "promote", BY_GATE)
    return replace(said, gates=(BEFORE_MERGE,), happened=(("flags_created", it.content, 0, 0),))


def gates_to(it: Definition, to: int) -> tuple[str, ...]:
    """Return the gates of a step to a ramp: none to lower; after a breach `pre_ramp` whatever the step (TN-73)."""
    if to <= it.ramp:
        return ()
    own = BEFORE_FULL if to == EVERYBODY else BEFORE_RAMP
    return (BEFORE_RAMP, own) if it.breach and own != BEFORE_RAMP else (own,)


def set_ramp(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """Another share, inside `promote`; more only for operators (PF1-FR-2d, PF1-FR-3c, PF1-D-26, -31, -40, -64)."""
    to = wish.to
    if it.state != "promote" or not 0 <= to <= EVERYBODY:
        return refused("not in promote, or no share")
    if to == it.ramp:
        return Said(slot)
    first = not it.served
    if slot.active != it.content and not first:
        return refused("inactive")
    raised = to > it.ramp
    if raised and wish.role != wishes.OPERATOR:
        return refused("only operators advance")
    open_breach, not_declared = it.breach and not it.noted, slot.curve and to not in slot.curve
    if raised and ((first and to == EVERYBODY) or open_breach or not_declared):
        return refused("first to everybody, open breach, or not on the curve")
    happened = [("ramp_set", it.content, it.ramp, to)]
    after = replace(
        it,
        ramp=to,
        breach="" if raised else it.breach,
        noted=False if raised else it.noted,
        waivers=_spent(it, to) if raised else it.waivers,
    )
    active, salt = slot.active, slot.salt
    if first:
        salt = _salt_after(slot, it)
        after = replace(after, served=True, behind=slot.active)
        active = it.content
        if it.flag is not None:
            after = replace(after, flags="on")
            happened += [("flags_on", it.content, 0, 0)]
        happened += [("activated", it.content, 0, 0)]
    elif raised and it.flags == "named":  # a revision has named the first flag of what serves already
        after = replace(after, flags="on")
        happened += [("flags_on", it.content, 0, 0)]
    return Said(replace(slot.put(after), active=active, salt=salt), gates=gates_to(it, to), happened=tuple(happened))


def _salt_after(slot: Slot, it: Definition) -> str:
    """Return the salt of a slot once `it` serves: another one for each rollout but the first, if that moves no user."""
    before = [each for each in slot.definitions if each.content != it.content and each.served]
    keeps = any(each.state == "promote" and 0 < each.ramp < EVERYBODY for each in before)
    return slot.salt if keeps or not before else f"{slot.name}/{it.content.rpartition(':')[2][:16]}"


def ramp_down(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """A safety breach: 0 % and nothing else, no gate (PF1-D-31, TN-76)."""
    if it.state != "promote":
        return refused(it.state)
    if it.breach == wish.breach and it.ramp == 0:
        return Said(slot)
    down = replace(it, ramp=0, breach=wish.breach, noted=False)
    return Said(slot.put(down), happened=(("ramped_down", it.content, it.ramp, 0),))


def acknowledge(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """Somebody has taken note of the breach."""
    if not it.breach or it.breach != wish.breach:
        return refused("no such breach")
    if it.noted:
        return Said(slot)
    return Said(slot.put(replace(it, noted=True)), happened=(("breach_acknowledged", it.content, 0, 0),))


def override(slot: Slot, it: Definition, wish: Wish, now: float) -> Said:
    """One `fail` of one step does not count until then (PF1-FR-4c)."""
    needed = {"test": (BEFORE_MERGE,), "promote": gates_to(it, wish.to)}.get(it.state, ())
    if wish.gate not in needed or wish.until <= now:
        return refused("not a gate of that step, or over already")
    kept = frozenset(each for each in it.waivers if now < each.until)
    waived = replace(it, waivers=kept | {Waiver(wish.gate, it.ramp, wish.to, wish.until)})
    return Said(slot.put(waived), happened=(("gate_overridden", it.content, 0, 0),))


def roll_back(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """Out of `test` or `promote`; the recorded target, or who is named, is back (PF1-D-22..24, TN-54, TN-63, TN-65)."""
    if it.state not in ("test", "promote"):
        return refused(it.state)
    said = _moved(slot, it, "rollback", BY_OPERATOR)
    if slot.active != it.content or said.after is None:
        return refused("nobody takes its place") if wish.instead else said
    back = {"": it.behind, wishes.NOBODY: None}.get(wish.instead, wish.instead)
    target = slot.of(back)
    can = target is not None and target.state == "promote" and not target.killed and target.served
    if back is not None and (back == it.content or not can):
        return refused("who is to come back cannot serve")
    happened = [("activated", back, 0, 0)] if back is not None else []
    if back is None and it.behind is not None:
        happened = [("slot_emptied", it.content, 0, 0)]
    return replace(said, after=replace(said.after, active=back), happened=tuple(happened))


def activate(slot: Slot, it: Definition, _wish: Wish, _now: float) -> Said:
    """Back into an empty slot, at its own last ramp (DESIGN section 8, edge rules)."""
    if slot.active is not None or it.state != "promote" or it.killed or not it.served:
        return refused("not empty, or it cannot serve")
    return Said(replace(slot, active=it.content), happened=(("activated", it.content, 0, 0),))


def kill(slot: Slot, it: Definition, _wish: Wish, _now: float) -> Said:
    """Off every surface, and nobody in its place (PF1-FR-9, TN-54, TN-60); refused once it is leaving.

    In `test` it takes a flag that was created, by whomever (TN-55); whether it was is looked at from outside.
    """
    if it.leaving is not None:
        return refused("leaving")
    if it.state == "rollback":
        return Said(slot)
    if it.state == "dev" or (it.state == "test" and it.flag is None):
        return refused(it.state)
    said = _moved(slot, replace(it, killed=True), "rollback", BY_KILL_SWITCH)
    if said.after is not None and slot.active == it.content:
        said = replace(said, after=replace(said.after, active=None))
    return replace(said, happened=(("killed", it.content, 0, 0),))


def retire_flags(slot: Slot, it: Definition, _wish: Wish, _now: float) -> Said:
    """They have served, once everybody is served (PF1-D-35, TN-59)."""
    if it.flags == "retired":
        return Said(slot)
    if slot.active != it.content or it.ramp != EVERYBODY:
        return refused("not everybody is served")
    retired = replace(it, flags="retired", flag=None if it.unnamed else it.flag, unnamed=False)
    return Said(slot.put(retired), happened=(("flags_retired", it.content, 0, 0),))


def configure(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """Mode and curve are declared, and no ramp moves (PF1-D-40, PF1-AC-2a, TN-72).

    Who lets the control arm in needs the gate of the ramp that it is let in to, so that it is about who is active.
    """
    if wish.curve and (
        not all(low < high for low, high in pairwise(wish.curve))
        or not 0 < wish.curve[0] < EVERYBODY
        or wish.curve[-1] > EVERYBODY
    ):
        return refused("a curve rises, and its first step is below 100 % (PF1-FR-3c)")
    experiment = wish.mode != "full"
    lets_in = slot.experiment and not experiment
    serving = slot.of(slot.active)
    if lets_in and serving is not None and serving.content != it.content:
        return refused("it is about another than who is active")
    if (experiment, wish.curve) == (slot.experiment, slot.curve):
        return Said(slot)
    gates: tuple[str, ...] = ()
    if lets_in and serving is not None and serving.ramp:
        gates = (BEFORE_FULL,) if serving.ramp == EVERYBODY else (BEFORE_RAMP,)
    after = replace(slot, experiment=experiment, curve=wish.curve)
    return Said(after, gates=gates, happened=(("configured", it.content, 0, 0),))


Rule = Callable[[Slot, Definition, Wish, float], Said]
RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        wishes.TO_TEST: to_test,
        wishes.PROMOTE: promote,
        wishes.SET_RAMP: set_ramp,
        wishes.RAMP_DOWN: ramp_down,
        wishes.ACKNOWLEDGE: acknowledge,
        wishes.OVERRIDE: override,
        wishes.ROLL_BACK: roll_back,
        wishes.ACTIVATE: activate,
        wishes.KILL: kill,
        wishes.RETIRE_FLAGS: retire_flags,
        wishes.CONFIGURE: configure,
        wishes.BEGIN: model_leaving.begin,
        wishes.TAKE: model_leaving.take,
        wishes.DECIDE: model_leaving.settle,
        wishes.UNDO: model_leaving.undo,
    }
)


@dataclass(frozen=True, slots=True)
class Card:
    """One definition as the configuration has it; `alone`: nothing else there fills the slot."""

    name: str
    content: str
    shape: str
    flag: str | None
    alone: bool


def see(slot: Slot, card: Card, *, at_once: bool) -> Said:
    """Return what a configuration makes of a slot (DESIGN section 8).

    With `at_once` an entry without a flag is everybody's, if it is alone and nothing in its slot has left `dev`.
    """
    said = _seen(slot, card)
    after = said.after or slot
    it = after.of(card.content)
    untouched = all(each.state == "dev" for each in after.definitions)
    if not (at_once and card.alone and untouched) or it is None or it.flag is not None:
        return said
    serving = replace(it, state="promote", ramp=EVERYBODY, served=True)
    revised = tuple(each for each in said.happened if each[0] != "definition_seen")
    after = replace(after.put(serving), active=it.content, revision=slot.revision + 1)
    return Said(after, happened=(*revised, ("definition_seen", it.content, 0, 0)))


def _seen(slot: Slot, card: Card) -> Said:
    """A minor revision inherits, anything else is new, and begins at `dev` (TN-66, TN-70).

    It does not inherit waivers: each lets one `fail` of one content pass.

    What is leaving is not revised (DESIGN section 8, edge rules).
    """
    same = [each for each in slot.definitions if (each.name, each.shape) == (card.name, card.shape)]
    if slot.of(card.content) is not None or any(each.leaving is not None for each in same):
        return Said(slot)
    if same:
        after = _revised(slot, same[-1], card)
        new, happened = after.of(card.content), [("definition_revised", card.content, 0, 0)]
        if new is not None and new.flags == "named" != same[-1].flags:
            happened.append(("flags_named", card.content, 0, 0))
        if new is not None and new.unnamed and not same[-1].unnamed:
            happened.append(("flags_kept", card.content, 0, 0))
        return Said(after, happened=tuple(happened))
    fresh = Definition(card.name, card.content, card.shape, card.flag, flags="none" if card.flag is None else "named")
    after = replace(slot, definitions=(*slot.definitions, fresh), revision=slot.revision + 1)
    return Said(after, happened=(("definition_seen", card.content, 0, 0),))


def _revised(slot: Slot, known: Definition, card: Card) -> Slot:
    """Return the slot with another content in the place of `known`, in whatever state that is.

    What a flag gates stays gated by it until its flags are retired, whatever the entry names by now: a pause and a kill
    switch are decisions of people, and no configuration ends them.
    """
    flag, flags = card.flag, known.flags
    if known.flag is not None and known.flags != "retired":
        flag = known.flag
    elif card.flag is not None and card.flag != known.flag:  # named first, or anew: switched on by nobody yet
        flags = "named"
    unnamed = flag != card.flag
    new = replace(known, content=card.content, flag=flag, flags=flags, unnamed=unnamed, waivers=frozenset())
    others = tuple(
        replace(each, behind=card.content) if each.behind == known.content else each
        for each in slot.definitions
        if each.content != known.content
    )
    active = card.content if slot.active == known.content else slot.active
    return replace(slot, definitions=(*others, new), active=active, revision=slot.revision + 1)


def _moved(slot: Slot, it: Definition, state: str, trigger: str) -> Said:
    before = slot.of(it.content)
    source = before.state if before else ""
    after = replace(it, state=state, ramp=0 if state == "rollback" else it.ramp)  # a ramp is of what is in `promote`
    return Said(slot.put(after), moves=((it.content, source, state, trigger, it.ramp),))


def _spent(it: Definition, to: int) -> frozenset[Waiver]:
    """Return what is left of the waivers once the step that they were for is taken: each passes one `fail`."""
    return frozenset(each for each in it.waivers if (each.since, each.to) != (it.ramp, to))


def wrong_in(slot: Slot) -> Iterator[str]:
    """Yield what no rule can have made of a slot, whatever happened."""
    states = {each.state for each in slot.definitions}
    if not states <= {"dev", "test", "promote", "rollback"}:
        yield f"{slot.name} has states {sorted(states)}"
    active = slot.of(slot.active)
    if slot.active is not None and (active is None or active.state != "promote" or active.killed):
        yield f"{slot.name} is served by {active or slot.active}"
    for each in slot.definitions:
        if each.killed and each.state != "rollback":
            yield f"{each.name} was killed and is in {each.state}"
        if each.ramp and not each.served:
            yield f"{each.name} has a ramp and was never active"
        if each.ramp and each.state == "rollback":
            yield f"{each.name} is in rollback and has a ramp of {each.ramp}"
        if each.leaving is not None and each.state != "rollback":
            yield f"{each.name} is leaving and is in {each.state}"
        if not 0 <= each.ramp <= EVERYBODY:
            yield f"{each.name} has a ramp of {each.ramp}"
