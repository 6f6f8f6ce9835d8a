"""What somebody asks for when they look at a rollout: mostly what makes sense there, sometimes anything at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.support.simulation.rollout import model, model_values, wishes
from tests.support.simulation.rollout.model_values import EVERYBODY, Definition, Slot

RAMPS: Final = (100, 500, 2500, 5000, 9000, EVERYBODY)
GATES: Final = (model_values.BEFORE_MERGE, model_values.BEFORE_RAMP, model_values.BEFORE_FULL, "legal")
KINDS: Final = tuple(model.RULES)
OPERATOR, BREAKER, WILD, BUILDER, LEAVER, KILLER = "operator", "breaker", "wild", "builder", "leaver", "killer"
CURVES: Final = ((), (), RAMPS, (500, 2500, EVERYBODY), (100, 5000), (9000,))
NO_CURVES: Final = ((2500, 500, EVERYBODY), (EVERYBODY,), (0, 500), (500, 500), (500, EVERYBODY + 1))
MODES: Final = ("experiment", "full", "cohort")
CHOICES: Final = ("retain", "remove")

Choice = tuple[int, str, Mapping[str, Any]]
"""Weight, kind, and what else is said."""


@dataclass(frozen=True, slots=True)
class Picked:
    """What is wanted of a definition."""

    kind: str
    name: str
    content: str
    said: Mapping[str, Any]


def pick(chance: Random, slots: tuple[Slot, ...], role: str, wall: float) -> Picked | None:
    """Return what somebody in a role wants; None: there is nothing to want anything of."""
    known = [(slot, each) for slot in slots for each in slot.definitions]
    if not known:
        return None
    slot, it = _chosen(chance, known, role)
    if role == WILD:
        kind, said = _anything(chance, it, wall)
    elif role == BUILDER:
        kind, said = _forward(chance, slot, it)
    elif role == LEAVER:
        kind, said = _away(chance, it)
    else:
        kind, said = _sensible(chance, slot, it, wall) if role == OPERATOR else _alarmed(chance, role)
    content = it.content if chance.random() < 0.3 else ""
    name = "nobody" if role == WILD and chance.random() < 0.1 else it.name
    return Picked(kind, name, content, said)


def _chosen(chance: Random, known: list[tuple[Slot, Definition]], role: str) -> tuple[Slot, Definition]:
    """Return what somebody looks at: killers what serves; who takes definitions away mostly what is leaving already."""
    serving = [(slot, each) for slot, each in known if slot.active == each.content]
    if role == KILLER and serving:
        return chance.choice(serving)
    if role == LEAVER and chance.random() < 0.95:
        for fitting in (
            [each for each in known if each[1].leaving is not None and not each[1].leaving.over],
            [each for each in known if each[1].state == "rollback"],
        ):
            if fitting:
                return chance.choice(fitting)
    return chance.choice(known)


def _away(chance: Random, it: Definition) -> tuple[str, Mapping[str, Any]]:
    """Take a definition away for good: mostly the next thing to do, now and then another."""
    if it.state != "rollback":
        return chance.choice(((wishes.ROLL_BACK, {}), (wishes.ROLL_BACK, {}), (wishes.KILL, {}), (wishes.BEGIN, {})))
    its = it.leaving
    if its is None:
        return (wishes.BEGIN, {}) if chance.random() < 0.9 else (wishes.TAKE, _step(chance, 1))
    undecided = [matter for matter, choice in (("evals", its.evals), ("tools", its.tools)) if not choice]
    matter = chance.choice(undecided or ["evals", "tools"])
    decide = {"matter": matter, "choice": chance.choice(CHOICES)}
    code_again = its.code == model_values.DEPRECATED
    follows = 3 if code_again and chance.random() < 0.3 else min(its.following, len(model_values.STEPS))
    choices: list[Choice] = [
        (8, wishes.TAKE, _step(chance, follows)),
        (1, wishes.TAKE, _step(chance, chance.randint(1, 5))),
        (1, wishes.TAKE, _step(chance, min(follows + 1, len(model_values.STEPS)))),
        (4 if undecided and its.following > 3 else 1, wishes.DECIDE, decide),
        (1 if its.following < 4 else 2, wishes.UNDO, {}),
        (1, wishes.BEGIN, {}),
        (1, wishes.KILL, {}),
    ]
    _, kind, said = chance.choices(choices, [weight for weight, _, _ in choices])[0]
    return kind, said


def _step(chance: Random, number: int) -> Mapping[str, Any]:
    """Return what is said of a step; now and then not what has to be."""
    code = chance.choice((model_values.GONE, model_values.GONE, model_values.DEPRECATED)) if number == 3 else ""
    word = "looked" if number in (3, 5) else ""
    if chance.random() < 0.06:
        code, word = chance.choice((("", word), (model_values.GONE, word), (code, "")))
    return {"step": number, "code": code, "word": word}


def _declared(chance: Random, slot: Slot) -> Mapping[str, Any]:
    """Return what is said of a configuration: another curve, another mode, or both."""
    mode = chance.choice(MODES)
    curve = slot.curve if chance.random() < 0.4 else chance.choice(CURVES)
    return {"mode": mode, "curve": chance.choice(NO_CURVES) if chance.random() < 0.08 else curve}


def _alarmed(chance: Random, role: str) -> tuple[str, Mapping[str, Any]]:
    if role == BREAKER and chance.random() < 0.6:
        return wishes.RAMP_DOWN, {"breach": chance.choice(("floor-1", "floor-2"))}
    return wishes.KILL, {}


def _forward(chance: Random, slot: Slot, it: Definition) -> tuple[str, Mapping[str, Any]]:
    """Bring a definition on; now and then another one that was active before."""
    if it.state in ("dev", "test"):
        return (wishes.TO_TEST if it.state == "dev" else wishes.PROMOTE), {}
    if it.ramp == EVERYBODY:
        return wishes.RETIRE_FLAGS, {}
    higher = [ramp for ramp in (slot.curve or RAMPS) if ramp > it.ramp] or [EVERYBODY]
    return wishes.SET_RAMP, {"to": chance.choice(higher)}


def _anything(chance: Random, it: Definition, wall: float) -> tuple[str, Mapping[str, Any]]:
    said = {
        "to": chance.choice((-1, 0, 1, *RAMPS, EVERYBODY, EVERYBODY + 1)),
        "breach": chance.choice((it.breach or "floor-1", "floor-9")),
        "gate": chance.choice(GATES),
        "until": round(wall + chance.choice((-5.0, 2.0, 600.0)), 3),
        "mode": chance.choice(MODES),
        "curve": chance.choice((*CURVES, *NO_CURVES)),
        "step": chance.randint(1, 5),
        "code": chance.choice(("", model_values.GONE, model_values.DEPRECATED)),
        "word": chance.choice(("", " ", "looked")),
        "matter": chance.choice(("evals", "tools")),
        "choice": chance.choice(CHOICES),
    }
    kind = chance.choice(KINDS)
    return kind, {name: said[name] for name in FIELDS.get(kind, ())}


FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    wishes.SET_RAMP: ("to",),
    wishes.RAMP_DOWN: ("breach",),
    wishes.ACKNOWLEDGE: ("breach",),
    wishes.OVERRIDE: ("gate", "to", "until"),
    wishes.CONFIGURE: ("mode", "curve"),
    wishes.TAKE: ("step", "code", "word"),
    wishes.DECIDE: ("matter", "choice"),
}
"""What is said of a wish, by its kind."""


def _sensible(chance: Random, slot: Slot, it: Definition, wall: float) -> tuple[str, Mapping[str, Any]]:
    choices = _choices(chance, slot, it, wall)
    if it.state in ("test", "promote"):
        choices.append((3 if slot.active == it.content else 1, wishes.CONFIGURE, _declared(chance, slot)))
    weights = [weight for weight, _, _ in choices]
    _, kind, said = chance.choices(choices, weights)[0]
    return kind, said


def _choices(chance: Random, slot: Slot, it: Definition, wall: float) -> list[Choice]:
    if it.state == "dev":
        return [(9, wishes.TO_TEST, {}), (1, wishes.PROMOTE, {})]
    if it.state == "test":
        pre_merge = {
            "gate": model_values.BEFORE_MERGE,
            "to": it.ramp,
            "until": round(wall + chance.choice((1.0, 600.0)), 3),
        }
        return [
            (8, wishes.PROMOTE, {}),
            (2, wishes.OVERRIDE, pre_merge),
            (1, wishes.ROLL_BACK, {}),
            (1, wishes.KILL, {}),
        ]
    if it.state == "promote":
        return _in_promote(chance, slot, it, wall)
    nothing = (wishes.TO_TEST, wishes.PROMOTE, wishes.ROLL_BACK, wishes.ACTIVATE, wishes.KILL)
    away, said = _away(chance, it)
    return [*((1, kind, {}) for kind in nothing), (5, away, said)]


def _in_promote(chance: Random, slot: Slot, it: Definition, wall: float) -> list[Choice]:
    higher = [ramp for ramp in (slot.curve or RAMPS) if ramp > it.ramp] or [EVERYBODY]
    lower = [ramp for ramp in (0, *RAMPS) if ramp < it.ramp] or [0]
    if not it.served:
        higher = [ramp for ramp in higher if ramp < EVERYBODY] or higher
    to = chance.choice(higher[:3])
    gates = model.gates_to(it, to) or (model_values.BEFORE_RAMP,)
    waive = {"gate": chance.choice(gates), "to": to, "until": round(wall + chance.choice((1.0, 600.0)), 3)}
    choices: list[Choice] = [
        (7, wishes.SET_RAMP, {"to": to}),
        (1, wishes.SET_RAMP, {"to": EVERYBODY}),
        (2, wishes.OVERRIDE, waive),
        (1, wishes.ROLL_BACK, {}),
        (1, wishes.KILL, {}),
    ]
    if it.ramp:
        choices += [(2, wishes.SET_RAMP, {"to": chance.choice(lower)}), (1, wishes.RAMP_DOWN, {"breach": "floor-1"})]
    if slot.curve:
        choices += [(2, wishes.SET_RAMP, {"to": chance.choice(RAMPS)})]
    if it.breach:
        choices += [(8, wishes.ACKNOWLEDGE, {"breach": it.breach})]
    if it.ramp == EVERYBODY:
        choices += [(4, wishes.RETIRE_FLAGS, {})]
    if slot.active == it.content:
        choices += [(2, wishes.ROLL_BACK, {}), (2, wishes.KILL, {})]
    elif it.served:
        choices += [(8 if slot.active is None else 1, wishes.ACTIVATE, {})]
    return choices
