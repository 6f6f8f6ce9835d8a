"""Small cards, catalogues and surfaces for tests, with everything a test does not care about filled in."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface import Surface, SurfaceTool
from sidecar.core.definitions.cards.card import AgentDefinition, Card, Catalogue, Limits, ModelEntry, Role
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.executing.contract import Contract, TurnText, contract_template
from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import Commit, DefinitionId, ModelId, Slot, TurnId, Vertical
from sidecar.core.rollout.bucketing import WHOLE
from tests.support.promoted import promoted_surface

TEXT = TurnText("words", "before")
MODEL = ModelEntry(ModelId("small"), "small-1", context_window=100_000)


class FixedFlags:
    """Flags that are what a test says; everything else is off."""

    narrowed = False

    def __init__(self, on: Sequence[str] = (), unreachable: Sequence[str] = ()) -> None:
        """Keep the names."""
        self._on = on
        self._unreachable = unreachable

    def value(self, flag_name: str, vertical: Vertical | None = None) -> FlagValue:
        """Return the state of a flag, whichever the vertical."""
        if flag_name in self._unreachable:
            return FlagValue.UNREACHABLE
        return FlagValue.ON if flag_name in self._on else FlagValue.OFF

    def share(self, flag_name: str, vertical: Vertical | None = None) -> int:
        """Return everybody."""
        return WHOLE


def a_card(name: str, **fields: Any) -> Card:
    """Return a card for a definition called `name` that fills the slot of the same name."""
    given: dict[str, Any] = {
        "description": f"Knows about {name}.",
        "role": Role.NATIVE,
        "model": MODEL.id,
        "slot": Slot(name),
        "vertical": Vertical(name),
        "limits": Limits(),
    }
    definition = AgentDefinition(id=DefinitionId(name), **(given | fields))
    digest = digest_of_card(definition, MODEL, (), ())
    return Card(definition, MODEL, (), (), digest, Commit(digest))


def a_catalogue(*cards: Card, sub_agents: Sequence[str] | None = None) -> Catalogue:
    """Return a catalogue of `cards` and an orchestrator `concierge` that lists their slots."""
    slots: dict[Slot, tuple[DefinitionId, ...]] = {}
    for card in cards:
        slots[card.definition.slot] = (*slots.get(card.definition.slot, ()), card.definition.id)
    listed = tuple(slots) if sub_agents is None else tuple(Slot(name) for name in sub_agents)
    orchestrator = a_card("concierge", sub_agents=listed, role=Role.ORCHESTRATOR)
    everything = {card.definition.id: card for card in (orchestrator, *cards)}
    tools = {tool.id: tool for card in everything.values() for tool in card.tools}
    blocks = frozenset(block.id for card in everything.values() for block in card.blocks)
    return Catalogue(everything, slots, tools, "definitions-1", "blocks-1", "capabilities-1", blocks)


def a_surface(*names: str, cap: int = 3, cards: Sequence[Card] = ()) -> Surface:
    """Return a surface with a tool for each of `names`, or for each of `cards`."""
    catalogue = a_catalogue(*(cards or [a_card(name) for name in names]))
    return promoted_surface(catalogue, FixedFlags(), BindingRules(fan_out_cap=cap, max_dispatches=4))


def contract_of(tool: SurfaceTool, request: str = "asked", text: TurnText = TEXT, turn: str = "t1") -> Contract:
    """Return the contract of the orchestrator's call of `tool` in a turn, its fourth, with 100 s left."""
    return contract_template(tool).filled(TurnId(turn), 3, text, request, 100.0).contract


def with_limits(card: Card, **limits: Any) -> Card:
    """Return the card with other limits."""
    definition = replace(card.definition, limits=replace(card.definition.limits, **limits))
    return replace(card, definition=definition)
