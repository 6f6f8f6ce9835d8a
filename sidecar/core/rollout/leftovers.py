"""What a configuration still contains of a definition that is being decommissioned, as far as a sidecar can see it.

Python modules and the eval suite are in no catalogue: `sidecar subagent decommission` looks for them in the checkout
of the configuration repository, or an operator confirms their removal. Source: PF1-FR-6, PF1-FR-11a, PF1-AC-7b.
"""

from collections.abc import Callable, Iterator

import msgspec

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.files.names import PLATFORM_OWNER, REQUIRED_BLOCKS
from sidecar.core.identifiers import BlockId, ToolId
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus, Subject
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.states import LifecycleState


class DecommissionScope(msgspec.Struct, frozen=True):
    """The parts of a configuration that are searched.

    Attributes:
        facts: of the definition.
        card: the stored card, which names the definition's own blocks and tools.
        catalogue: the configuration as last loaded.
    """

    rollout: SlotRollout
    facts: DefinitionFacts
    card: Card
    catalogue: Catalogue


def blockers(scope: DecommissionScope, step: CleanupStep) -> tuple[str, ...]:
    """Return what blocks a step, one sentence each; the conditions of earlier steps must still hold.

    References count from the first step on: an entry is removed only when no other entry names it (PF1-FR-11a, TN-90).
    """
    checks: list[Callable[[DecommissionScope], Iterator[str]]] = [_entry_served, references]
    # From here on the entry must be gone, and not only deprecated: its blocks would still be needed to load it.
    if step.number >= CleanupStep.BLOCKS.number:
        checks = [_entry_there, references, _blocks]
    # Only the last step applies the decision about the tools.
    if step is CleanupStep.EVALS_AND_TOOLS:
        checks.append(_tools_to_remove)
    return tuple(said for check in checks for said in check(scope))


def leftovers(scope: DecommissionScope) -> tuple[str, ...]:
    """Return everything that must be removed or decided before a decommission ends, one sentence each."""
    seen = [said for check in (_entry_there, references, _blocks, _tools_to_remove) for said in check(scope)]
    return (*seen, *pending_steps(scope.facts))


def pending_steps(facts: DefinitionFacts) -> Iterator[str]:
    """Yield the steps that are still to do according to the record."""
    record = facts.decommission
    if record is None:
        return
    # Step 3 has sentences of its own: it can be taken without being final.
    modules = record.taken(CleanupStep.MODULES)
    if modules is None:
        yield "the removal of its Python modules is not confirmed yet (step 3)"
    elif modules.code is CodeStatus.DEPRECATED:
        yield "its Python modules are only deprecated: delete them, and repeat step 3"
    for matter in record.undecided:
        yield f"no decision yet about its {matter}: retain or remove"
    for step in CleanupStep:
        if step is not CleanupStep.MODULES and record.taken(step) is None:
            yield f"step {step.label} is not taken"


def references(scope: DecommissionScope) -> Iterator[str]:
    """Yield the entries that still name its slot in `sub_agents`, unless another definition fills the slot."""
    slot = scope.rollout.slot
    # The slot is the name that orchestrators list, so a successor in the same slot keeps their entries valid.
    if any(_fills(scope, scope.catalogue.cards[name]) for name in scope.catalogue.slots.get(slot, ())):
        return
    for name, card in scope.catalogue.cards.items():
        if slot in card.definition.sub_agents:
            yield f"{name} still names {slot} in `sub_agents`, and nothing else fills it"


def own_blocks(card: Card, catalogue: Catalogue) -> tuple[BlockId, ...]:
    """Return the prompt blocks that only this definition uses, without those of the platform. Source: PF1-FR-6d."""
    used = _used(card, catalogue, lambda each: [block.id for block in each.blocks])
    return tuple(
        block.id
        for block in card.blocks
        if block.id not in used and block.id not in REQUIRED_BLOCKS and block.owner != PLATFORM_OWNER
    )


def own_tools(card: Card, catalogue: Catalogue) -> tuple[ToolId, ...]:
    """Return the tools that only this definition uses. Source: PF1-FR-6e."""
    used = _used(card, catalogue, lambda each: [tool.id for tool in each.tools])
    return tuple(tool.id for tool in card.tools if tool.id not in used)


def _used(card: Card, catalogue: Catalogue, names_of: Callable[[Card], list[str]]) -> frozenset[str]:
    """Return the names of everything that the other entries use."""
    # Deprecated entries count, too: they are kept for replay, and must load.
    others = (each for name, each in catalogue.cards.items() if name != card.definition.id)
    return frozenset(name for each in others for name in names_of(each))


def _fills(scope: DecommissionScope, card: Card) -> bool:
    """Return whether a definition may fill the slot instead; the same rule as check b of `validate-refs`.

    A minor revision that is not recorded counts as the definition that it revises. (A definition that is being
    decommissioned is not revised, so its revisions may never be recorded.)
    """
    known = [
        each
        for each in scope.rollout.of_id(card.definition.id)
        if card.digest == each.digest or card.shape == each.shape
    ]
    rolled_back = any(each.state is LifecycleState.ROLLBACK for each in known)
    # The definition that is removed cannot fill its own slot.
    own = card.definition.id == scope.facts.definition_id
    return not own and not card.definition.deprecated and not rolled_back


def _entry_served(scope: DecommissionScope) -> Iterator[str]:
    card = scope.catalogue.cards.get(scope.facts.definition_id)
    if card is not None and not card.definition.deprecated:
        yield f"the entry of {scope.facts.definition_id} is there, and not marked `status: deprecated`"


def _entry_there(scope: DecommissionScope) -> Iterator[str]:
    if scope.facts.definition_id in scope.catalogue.cards:
        yield f"the entry of {scope.facts.definition_id} is still in agent_config.yaml"


def _blocks(scope: DecommissionScope) -> Iterator[str]:
    for name in own_blocks(scope.card, scope.catalogue):
        if name in scope.catalogue.blocks:
            yield f"the prompt block {name} still exists, and no other definition uses it"


def _tools_to_remove(scope: DecommissionScope) -> Iterator[str]:
    record = scope.facts.decommission
    decided = None if record is None else record.decided(Subject.TOOLS)
    # A tool belongs to a data service, which may have other users. Only a decision of an operator makes it a leftover.
    if decided is None or decided.choice is not Choice.REMOVE:
        return
    for name in own_tools(scope.card, scope.catalogue):
        if name in scope.catalogue.tools:
            yield f"the tool {name} still exists, and no other definition uses it"
