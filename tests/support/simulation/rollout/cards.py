"""The definitions that configurations of a run are made of: a few names, each in several variants."""

from functools import cache
from typing import Any, Final

from sidecar.core.definitions.cards.card import (
    AgentDefinition,
    BlockCategory,
    Card,
    Catalogue,
    PromptBlock,
    Role,
    ToolEntry,
)
from sidecar.core.definitions.cards.card_json import card_to_json
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.definitions.files.names import PLATFORM_OWNER
from sidecar.core.identifiers import BlockId, Commit, Digest, Slot, ToolId
from sidecar.operations.rollout.store.ports import KeptDefinition
from tests.support.builders import MODEL, a_card
from tests.support.simulation.ports import BEGIN
from tests.support.simulation.rollout import model
from tests.support.simulation.rollout.model_leaving import Config, Entry, Parts

SLOTS: Final = ("shop", "perks")
NAMES: Final = {"shop": ("shop_plain", "shop_one", "shop_two"), "perks": ("perks_one", "perks_two")}
SLOT_OF: Final = {name: slot for slot, names in NAMES.items() for name in names}
PLAIN: Final = "shop_plain"
"""No flag gates it, but where it is `freed`."""
BASE, MINOR, MAJOR, FREED, DEPRECATED = "base", "minor", "major", "freed", "deprecated"
VARIANTS: Final = (BASE, MINOR, MAJOR, FREED, DEPRECATED)
"""`freed` names no flag where the others do, and one where they name none."""
BLOCKS_LEFT, TOOLS_LEFT = "blocks left", "tools left"
"""In the place of a variant: the entry is gone, and its blocks and tools, or its tools, are still there."""
UNLISTED: Final = "unlisted"
"""In the place of a variant, with the name of a slot: nobody names it in `sub_agents`."""

Variants = tuple[tuple[str, str], ...]
"""Name and variant of each definition that a configuration has, and what else is to be said of it."""


def flag_of(name: str) -> str:
    """Return the kill flag of a definition."""
    return f"ai_assistant_subagent_{name}"


def _blocks_of(name: str) -> tuple[PromptBlock, ...]:
    """Return the prompt blocks of a definition: its own, its slot's, and one that the platform owns."""
    slot = SLOT_OF[name]
    owned = ((f"persona-{name}", slot), (f"facts-{slot}", slot), (f"tone-{name}", PLATFORM_OWNER))
    return tuple(PromptBlock(BlockId(each), BlockCategory.FORMAT, each, None, owner, each) for each, owner in owned)


def _tools_of(name: str, variant: str) -> tuple[ToolEntry, ...]:
    """Return the tools of a definition: its own, its slot's, and in a major revision one that anybody may use."""
    ids = (f"tool-{name}", f"search-{SLOT_OF[name]}", *(("calculator",) if variant == MAJOR else ()))
    return tuple(ToolEntry(ToolId(each), each) for each in ids)


@cache
def card(name: str, variant: str) -> Card:
    """Return a definition in one variant; all but `major` are minor changes of each other."""
    slot, blocks, tools = SLOT_OF[name], _blocks_of(name), _tools_of(name, variant)
    fields: dict[str, Any] = {"slot": Slot(slot), "vertical": slot}
    if (name == PLAIN) == (variant == FREED):
        fields["enabled_via_flag"] = flag_of(name)
    if variant == DEPRECATED:
        fields["deprecated"] = True
    fields |= {"tools": tuple(each.id for each in tools), "prompt_blocks": tuple(each.id for each in blocks)}
    described = f"{name} {variant if variant != BASE else ''}"
    definition: AgentDefinition = a_card(name, description=described, **fields).definition
    digest = digest_of_card(definition, MODEL, tools, blocks)
    return Card(definition, MODEL, tools, blocks, digest, Commit(digest))


def _has_entry(name: str, variant: str) -> bool:
    return name in SLOT_OF and variant in VARIANTS


@cache
def cards_in(variants: Variants) -> tuple[Card, ...]:
    """Return the entries of a configuration but for the orchestrator's, by slot."""
    found = [card(name, variant) for name, variant in variants if _has_entry(name, variant)]
    return tuple(each for slot in SLOTS for each in found if each.definition.slot == slot)


@cache
def config_for_the_model(variants: Variants) -> Config:
    """Return what a configuration has that a decommission may have to wait for, in the words of the model."""
    entries = tuple(
        Entry(
            name=each.definition.id,
            slot=each.definition.slot,
            shape=each.shape,
            deprecated=each.definition.deprecated,
            blocks=frozenset(each.definition.prompt_blocks),
            tools=frozenset(each.definition.tools),
        )
        for each in cards_in(variants)
    )
    blocks = {name for each in entries for name in each.blocks} | {f"tone-{name}" for name in SLOT_OF}
    tools = {name for each in entries for name in each.tools} | {"calculator"}
    for name, variant in variants:
        blocks |= {each.id for each in _blocks_of(name)} if variant == BLOCKS_LEFT else set()
        tools |= {each.id for each in _tools_of(name, BASE)} if variant in (BLOCKS_LEFT, TOOLS_LEFT) else set()
    listed = frozenset(slot for slot in SLOTS if (slot, UNLISTED) not in variants)
    return Config(entries, listed, frozenset(blocks), frozenset(tools))


@cache
def catalogue(variants: Variants) -> Catalogue:
    """Return a configuration; its orchestrator lists every slot, filled or not, unless it is said to be unlisted."""
    found, config = cards_in(variants), config_for_the_model(variants)
    slots = {
        slot: tuple(each.definition.id for each in found if each.definition.slot == slot) for slot in map(Slot, SLOTS)
    }
    listed = tuple(slot for slot in slots if slot in config.listed)
    orchestrator = a_card("concierge", sub_agents=listed, role=Role.ORCHESTRATOR)
    everything = {each.definition.id: each for each in (orchestrator, *found)}
    filled = {slot: names for slot, names in slots.items() if names}
    tools = {ToolId(name): ToolEntry(ToolId(name), name) for name in sorted(config.tools)}
    label = "-".join(variant for _, variant in variants)
    return Catalogue(everything, filled, tools, label, "1", "1", frozenset(map(BlockId, config.blocks)))


@cache
def cards_for_the_model(variants: Variants) -> tuple[tuple[str, model.Card], ...]:
    """Return the same configuration in the words of the model, with the slot of each definition."""
    found = cards_in(variants)
    filling = [each.definition.slot for each in found]
    return tuple(
        (
            str(each.definition.slot),
            model.Card(
                str(each.definition.id),
                each.digest,
                each.shape,
                each.definition.enabled_via_flag,
                alone=filling.count(each.definition.slot) == 1,
            ),
        )
        for each in found
    )


@cache
def parts_of(content: str) -> Parts:
    """Return what a content named, but for the blocks that the platform owns."""
    name, variant = _KNOWN[Digest(content)]
    own = (each.id for each in _blocks_of(name) if each.owner != PLATFORM_OWNER)
    return Parts(frozenset(own), frozenset(each.id for each in _tools_of(name, variant)))


def kept_cards() -> tuple[KeptDefinition, ...]:
    """Return every variant as it is kept: whatever was active before this run is on record."""
    every = [card(name, variant) for name in SLOT_OF for variant in VARIANTS]
    return tuple(
        KeptDefinition(each.digest, each.definition.id, each.definition.slot, each.commit, card_to_json(each), BEGIN)
        for each in every
    )


_KNOWN: Final = {card(name, variant).digest: (name, variant) for name in SLOT_OF for variant in VARIANTS}


@cache
def contents_of(name: str) -> frozenset[str]:
    """Return every content that a definition id may have."""
    return frozenset(card(name, variant).digest for variant in VARIANTS)


@cache
def deprecated_in(variants: Variants) -> frozenset[str]:
    """Return the contents whose entry says that they are deprecated."""
    return frozenset(card(name, variant).digest for name, variant in variants if variant == DEPRECATED)
