"""Decides which sub-agents a turn may call, from values in memory.

`bind_turn` calls this once per turn, before the model of the orchestrator sees its tools. Equal values give an equal
surface, on every replica.

Source: PC2-FR-1, PC2-FR-2, PC1-D-10, TN-51, DESIGN section 8 (first bullet).
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from msgspec import Struct

from sidecar.core.binding.candidates import CardOf, Flags, SlotCandidates, evaluate_slots, excluded_candidates
from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate, Surface, SurfaceTool
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.cards.prompt import prefix_of
from sidecar.core.definitions.files.placeholders import filled
from sidecar.core.errors import FieldProblem, InvalidRequest, UnknownOrchestrator
from sidecar.core.flag_states import FlagValue
from sidecar.core.identifiers import DefinitionId, Digest, Slot, Vertical, tool_name_of
from sidecar.core.json_schemas import canonical_text
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.view import RolloutView


class BindingRules(Struct, frozen=True):
    """The operator's settings for every turn. The cap has no default (TN-19)."""

    fan_out_cap: int
    max_dispatches: int


def orchestrator_of(catalogue: Catalogue, wanted: str) -> Card:
    """Return the orchestrator's card.

    Args:
        catalogue: the configuration.
        wanted: definition id; empty means the only one there is.

    Raises:
        UnknownOrchestrator: no such definition, or it has no sub-agents.
        InvalidRequest: `wanted` is empty and there are several.
    """
    card = catalogue.cards.get(DefinitionId(wanted))
    if card is not None and card.definition.is_orchestrator:
        return card
    orchestrators = [card for card in catalogue.cards.values() if card.definition.is_orchestrator]
    names = ", ".join(sorted(card.definition.id for card in orchestrators)) or "none"
    if wanted:
        raise UnknownOrchestrator(
            f"no orchestrator is called {wanted[:64]!r}; the configuration has: {names}", metadata={"known": names}
        )
    if len(orchestrators) == 1:
        return orchestrators[0]
    if not orchestrators:
        raise UnknownOrchestrator("the configuration has no orchestrator: no definition lists sub_agents")
    problem = FieldProblem("orchestrator_id", f"is empty, and there are several orchestrators: {names}")
    raise InvalidRequest("say which orchestrator the turn is for", fields=[problem])


def evaluated_slots(
    catalogue: Catalogue, orchestrator: Card, flags: Flags, view: RolloutView, asker: BindSubject
) -> tuple[SlotCandidates, ...]:
    """Return the serving definition of each slot of the orchestrator, in its order.

    Pure; a few microseconds per slot.
    """
    listed, most = orchestrator.definition.sub_agents, catalogue.max_sub_agents
    # The limit counts listed slots and not those that serve: otherwise, switching one sub-agent off would switch
    # another one on.
    within = [evaluate_slots(slot, catalogue, flags, view, asker) for slot in listed[:most]]
    return (*within, *(excluded_candidates(slot, catalogue) for slot in listed[most:]))


def tools_of(catalogue: Catalogue, judged: Sequence[SlotCandidates], kept: CardOf) -> tuple[SurfaceTool, ...]:
    """Return the tools of all users with the same evaluated slots, in the order of `judged`.

    Args:
        catalogue: the configuration.
        judged: the serving definition of each slot, in order.
        kept: finds cards of earlier configurations; a slot whose card is not stored is omitted.
    """
    # By digest: a rollout may serve content that the configuration no longer has, from its stored copy.
    cards = {card.digest: card for card in catalogue.cards.values()}
    chosen = [(each.slot, cards.get(each.digest) or kept(each.digest)) for each in judged if each.digest is not None]
    return tuple(surface_tool(slot, card) for slot, card in chosen if card is not None)


def cohort_of(catalogue: Catalogue, orchestrator: Card, flags: Flags, arm: str, tools: Sequence[SurfaceTool]) -> Cohort:
    """Return the cohort of the users who have `tools`; `arm`: of the experiment, as the caller states."""
    return Cohort(
        agent_definition_version=catalogue.agent_definition_version,
        prompt_block_registry_version=catalogue.prompt_block_registry_version,
        xml_prompt_component_registry_version=catalogue.xml_prompt_component_registry_version,
        active_feature_flags=active_flags(catalogue, orchestrator, flags),
        experiment_arm_assignment=arm,
        active_sub_agents=tuple(tool.slot for tool in tools),
    )


def surface_of(
    orchestrator: Card,
    tools: tuple[SurfaceTool, ...],
    candidates: tuple[Candidate, ...],
    cohort: Cohort,
    rules: BindingRules,
) -> Surface:
    """Return the surface of a cohort; used for a bind, and for a surface token from another process."""
    # From the cohort, and not from the flags of now: another process must rebuild the same prompt from a token.
    flags_on = frozenset(cohort.active_feature_flags)
    prefix = filled(prefix_of(orchestrator.blocks, flags_on), rules.fan_out_cap)
    return Surface(
        orchestrator=orchestrator,
        tools=tools,
        candidates=candidates,
        cohort=cohort,
        flags_on=flags_on,
        prompt_prefix=prefix,
        prefix_digest=_digest(prefix),
        fan_out_cap=rules.fan_out_cap,
        max_dispatches=rules.max_dispatches,
        binding_digest=binding_digest(tools),
    )


def surface_tool(slot: Slot, card: Card) -> SurfaceTool:
    """Return the tool that asks `card` in `slot`."""
    definition = card.definition
    return SurfaceTool(slot, tool_name_of(slot), definition.description, definition.offered_schema_json, card)


def binding_digest(tools: Iterable[SurfaceTool]) -> Digest:
    """Return the digest a client echoes: over id, commit, name, description, schema and contract defaults, in order."""
    rows = [
        [
            tool.card.definition.id,
            tool.card.commit,
            tool.card.digest,
            tool.name,
            tool.description,
            tool.arguments_schema_json,
            # The limits are part of the digest, because they are the defaults of the contract that a call gets.
            repr(tool.card.definition.limits),
        ]
        for tool in tools
    ]
    return _digest(canonical_text(rows))


def active_flags(catalogue: Catalogue, orchestrator: Card, flags: Flags) -> tuple[str, ...]:
    """Return the flags that are on for all users, of those that orchestrator, sub-agents and their blocks mention."""
    mentioned: dict[str, Vertical] = {}
    for card in _reached(catalogue, orchestrator):
        for name in card.flags:
            # The first card that mentions a flag determines the backend: the orchestrator before its sub-agents.
            mentioned.setdefault(name, card.definition.vertical)
    return tuple(sorted(name for name, vertical in mentioned.items() if _on_for_all(flags, name, vertical)))


def _on_for_all(flags: Flags, name: str, vertical: Vertical) -> bool:
    # Only a flag that is on for everyone: the cohort, and with it the prompt's prefix, is the same for all its users. A
    # flag for a share of users would split the cache of every provider.
    return flags.value(name, vertical) is FlagValue.ON and flags.share(name, vertical) == WHOLE


def _reached(catalogue: Catalogue, orchestrator: Card) -> Iterable[Card]:
    yield orchestrator
    for slot in orchestrator.definition.sub_agents:
        for definition_id in catalogue.slots.get(slot, ()):
            yield catalogue.cards[definition_id]


def _digest(text: str) -> Digest:
    return Digest(f"sha256:{sha256(text.encode()).hexdigest()}")
