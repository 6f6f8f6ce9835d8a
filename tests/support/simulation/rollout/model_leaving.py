"""The rules of a decommission: REQUIREMENTS PF1-FR-6 and PF1-D-41 to D-44, DESIGN section 8, DECISIONS "Decommission".

What the record alone decides are rules like those of `model.py`. What a configuration holds up is apart from them,
since each sidecar has loaded its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.support.simulation.rollout.model_values import (
    DEPRECATED,
    GONE,
    STEPS,
    Definition,
    Leaving,
    Said,
    Slot,
    refused,
)
from tests.support.simulation.rollout.wishes import Wish

ENTRY, REFERENCES, MODULES, BLOCKS, EVALS_AND_TOOLS = range(1, len(STEPS) + 1)
VOUCHED = (MODULES, EVALS_AND_TOOLS)
"""Steps that take somebody's word for what no sidecar can see."""


def begin(slot: Slot, it: Definition, _wish: Wish, now: float) -> Said:
    """Out of `rollback` only, and it stays there; the window runs from now (PF1-FR-6f, PF1-D-76, TN-87, TN-93)."""
    if it.leaving is not None:
        return Said(slot)
    if it.state != "rollback":
        return refused(it.state)
    if any(each.name == it.name and each.state in ("test", "promote") for each in slot.definitions):
        return refused("its entry is that of another content, which is on its way or serves (PF1-FR-6a)")
    return _marked(slot, it, Leaving(began=round(now, 6)), "decommission_begun")


def take(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """One of the five, in their order; one that was taken changes nothing (PF1-D-41, PF1-T-22)."""
    its = it.leaving
    if its is None:
        return refused("not begun")
    if wish.step in its.taken and wish.code == (its.code if wish.step == MODULES else ""):
        return Said(slot)
    why = _refused_step(its, wish)
    if why:
        return refused(why)
    after = replace(its, taken=its.taken | {wish.step}, code=wish.code or its.code)
    return _marked(slot, it, after, "decommission_step")


def settle(slot: Slot, it: Definition, wish: Wish, _now: float) -> Said:
    """What becomes of evaluations and tools, each by itself, until step 5 has done it (PF1-D-42)."""
    its = it.leaving
    if its is None:
        return refused("not begun")
    if wish.choice == (its.evals if wish.matter == "evals" else its.tools):
        return Said(slot)
    if EVALS_AND_TOOLS in its.taken:
        return refused("carried out already")
    after = replace(its, evals=wish.choice) if wish.matter == "evals" else replace(its, tools=wish.choice)
    return _marked(slot, it, after, "decommission_decided")


def undo(slot: Slot, it: Definition, _wish: Wish, _now: float) -> Said:
    """Back, until code (step 3) or blocks (step 4) are deleted; the state stays (PF1-D-44, TN-91)."""
    its = it.leaving
    if its is None:
        return refused("not begun")
    if its.code == GONE or BLOCKS in its.taken:
        return refused("deleted already")
    return _marked(slot, it, None, "decommission_undone")


def _refused_step(its: Leaving, wish: Wish) -> str:
    """Return why a step that would change something is refused; empty: it is not."""
    if wish.step not in its.taken and wish.step != its.following:
        return "out of order"
    if (wish.step == MODULES) != bool(wish.code):
        return "step 3, and no other, says what became of the modules"
    if its.code == GONE and wish.code == DEPRECATED:
        return "deleted code is not deprecated any more"
    if wish.step in VOUCHED and not wish.word.strip():
        return "nobody vouches for it"
    if wish.step == EVALS_AND_TOOLS and not (its.evals and its.tools):
        return "undecided"
    return ""


def _marked(slot: Slot, it: Definition, after: Leaving | None, word: str) -> Said:
    return Said(slot.put(replace(it, leaving=after)), happened=((word, it.content, 0, 0),))


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of `agent_config.yaml`."""

    name: str
    slot: str
    shape: str
    deprecated: bool
    blocks: frozenset[str]
    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration, as far as a decommission is concerned.

    Attributes:
        listed: slots that somebody names in `sub_agents`.
        blocks, tools: that are there, used or not.
    """

    entries: tuple[Entry, ...]
    listed: frozenset[str]
    blocks: frozenset[str]
    tools: frozenset[str]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a definition named; `blocks`: without those of the platform, which stay whoever used them."""

    blocks: frozenset[str]
    tools: frozenset[str]


def in_the_way(slot: Slot, it: Definition, step: int, config: Config, its: Parts) -> Iterator[str]:
    """Yield what a configuration still holds that keeps a step from being taken; earlier steps' matters count again.

    References count from the first step on (PF1-FR-11a, TN-90), and the entry goes at the latest with its blocks.
    """
    entries = [each for each in config.entries if each.name == it.name]
    others = [each for each in config.entries if each.name != it.name]
    if any(step >= BLOCKS or not each.deprecated for each in entries):
        yield "its entry is there"
    fill = [each for each in others if each.slot == slot.name and not each.deprecated and not _is_over(slot, each)]
    if slot.name in config.listed and not fill:
        yield "its slot is named, and nobody else fills it"
    if step >= BLOCKS and (its.blocks - {name for each in others for name in each.blocks}) & config.blocks:
        yield "blocks of its own are there"
    removes = it.leaving is not None and it.leaving.tools == "remove"
    own_tools = its.tools - {name for each in others for name in each.tools}
    if step == EVALS_AND_TOOLS and removes and own_tools & config.tools:
        yield "tools of its own are there"


def _is_over(slot: Slot, entry: Entry) -> bool:
    """Say whether an entry is of a definition that is in `rollback`: whatever its content is by now (PF1-D-56)."""
    known = [each for each in slot.definitions if (each.name, each.shape) == (entry.name, entry.shape)]
    return any(each.state == "rollback" for each in known)
