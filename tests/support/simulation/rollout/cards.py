"""The definitions that configurations of a run are made of: a few names, each in several variants."""

from functools import cache
from typing import Any, Final

from sidecar.core.definitions.card import Card, Catalogue, Role
from sidecar.core.definitions.card_json import card_to_json
from sidecar.core.identifiers import DefinitionId, Slot, ToolId
from sidecar.operations.rollout.ports import KeptDefinition
from tests.support.builders import a_card
from tests.support.simulation.ports import BEGIN
from tests.support.simulation.rollout import model

SLOTS: Final = ("shop", "perks")
NAMES: Final = {"shop": ("shop_plain", "shop_one", "shop_two"), "perks": ("perks_one", "perks_two")}
SLOT_OF: Final = {name: slot for slot, names in NAMES.items() for name in names}
PLAIN: Final = "shop_plain"
"""No flag gates it."""
BASE, MINOR, MAJOR, FREED, DEPRECATED = "base", "minor", "major", "freed", "deprecated"
VARIANTS: Final = (BASE, MINOR, MAJOR, FREED, DEPRECATED)

Variants = tuple[tuple[str, str], ...]
"""Name and variant of each definition that a configuration has."""


def flag_of(name: str) -> str:
    """Return the kill flag of a definition."""
    return f"ai_assistant_subagent_{name}"


@cache
def card(name: str, variant: str) -> Card:
    """Return a definition in one variant; all but `major` are minor changes of each other."""
    slot = SLOT_OF[name]
    fields: dict[str, Any] = {"slot": Slot(slot), "vertical": slot}
    if name != PLAIN and variant != FREED:
        fields["enabled_via_flag"] = flag_of(name)
    if variant == MAJOR:
        fields["tools"] = (ToolId("calculator"),)
    if variant == DEPRECATED:
        fields["deprecated"] = True
    return a_card(name, description=f"{name} {variant if variant != BASE else ''}", **fields)


@cache
def catalogue(variants: Variants) -> Catalogue:
    """Return a configuration; its orchestrator lists every slot, filled or not."""
    cards = [card(name, variant) for name, variant in variants]
    slots = {
        slot: tuple(each.definition.id for each in cards if each.definition.slot == slot) for slot in map(Slot, SLOTS)
    }
    orchestrator = a_card("concierge", sub_agents=tuple(slots), role=Role.ORCHESTRATOR)
    everything = {each.definition.id: each for each in (orchestrator, *cards)}
    filled = {slot: names for slot, names in slots.items() if names}
    label = "-".join(variant for _, variant in variants)
    return Catalogue(everything, filled, {}, label, "1", "1", frozenset())


@cache
def cards_for_the_model(variants: Variants) -> tuple[tuple[str, model.Card], ...]:
    """Return the same configuration in the words of the model, with the slot of each definition."""
    found = catalogue(variants)
    told = []
    for slot, names in found.slots.items():
        for name in names:
            each = found.cards[DefinitionId(name)]
            flag = each.definition.enabled_via_flag
            told.append((str(slot), model.Card(name, each.digest, each.shape, flag, alone=len(names) == 1)))
    return tuple(told)


def kept_cards() -> tuple[KeptDefinition, ...]:
    """Return every variant as it is kept: whatever was active before this run is on record."""
    every = [card(name, variant) for name in SLOT_OF for variant in VARIANTS]
    return tuple(
        KeptDefinition(each.digest, each.definition.id, each.definition.slot, each.commit, card_to_json(each), BEGIN)
        for each in every
    )


@cache
def deprecated_in(variants: Variants) -> frozenset[str]:
    """Return the contents whose entry says that they are deprecated."""
    return frozenset(card(name, variant).digest for name, variant in variants if variant == DEPRECATED)
