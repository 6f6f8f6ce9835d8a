"""What a configuration still holds of a definition that is being decommissioned."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import BlockCategory, Card, Catalogue, PromptBlock, ToolEntry
from sidecar.core.identifiers import BlockId, ToolId
from sidecar.core.rollout.decommission_facts import (
    Choice,
    CleanupStep,
    CodeStatus,
    CompletedStep,
    Decision,
    Decommission,
)
from sidecar.core.rollout.facts import DefinitionFacts
from sidecar.core.rollout.leftovers import DecommissionScope, blockers, leftovers, own_blocks, own_tools
from sidecar.core.rollout.states import LifecycleState
from tests.support.builders import a_card, a_catalogue
from tests.support.requirement import requirement
from tests.unit.rollout.building import NOW, facts, rollout

ENTRY, REFERENCES, MODULES, BLOCKS, EVALS_AND_TOOLS = CleanupStep


def card(name: str, blocks: str = "", tools: str = "", **fields: Any) -> Card:
    """Return a card with blocks (`name@owner`, else its own) and tools, by name."""
    parts = [one.partition("@") for one in blocks.split()]
    return replace(
        a_card(name, **fields),
        blocks=tuple(
            PromptBlock(BlockId(block), BlockCategory.PERSONA, "Text.", None, owner or name, f"{block}.yaml")
            for block, _, owner in parts
        ),
        tools=tuple(ToolEntry(ToolId(tool), "Does it.") for tool in tools.split()),
    )


SHOP = card("shop", "persona-fetch-assistant@platform safety-financial@platform persona-shop tone@rewards", "find pay")
GONE = facts("shop", LifecycleState.ROLLBACK)


def scene(
    *others: Card, sub_agents: Sequence[str] = (), also: DefinitionFacts | None = None, tools: Choice | None = None
) -> DecommissionScope:
    """Return a scene in which `shop` is decommissioned; `shop` itself is in the configuration only if it is given."""
    decided = None if tools is None else Decision(choice=tools, at=NOW, by="ada", reason="because")
    record = Decommission(began_at=NOW, due_at=NOW, by="ada", reason="because", tools=decided)
    one = msgspec.structs.replace(GONE, digest=SHOP.digest, decommission=record)
    definitions = [one, *([also] if also else [])]
    return DecommissionScope(rollout(*definitions), one, SHOP, a_catalogue(*others, sub_agents=sub_agents))


def with_everything(catalogue: Catalogue) -> Catalogue:
    """Return a catalogue whose files still hold all blocks and tools of `shop`."""
    blocks = catalogue.blocks | {block.id for block in SHOP.blocks}
    return replace(catalogue, blocks=blocks, tools={**catalogue.tools, **{tool.id: tool for tool in SHOP.tools}})


def test_an_entry_that_is_neither_marked_nor_gone_is_in_the_way_of_every_step() -> None:
    """Marked deprecated is enough for three steps; blocks go only after the entry that names them."""
    for step in CleanupStep:
        assert any("the entry of shop" in said for said in blockers(scene(SHOP), step))
    marked = scene(card("shop", deprecated=True))
    assert [step for step in CleanupStep if blockers(marked, step)] == [BLOCKS, EVALS_AND_TOOLS]
    assert [step for step in CleanupStep if blockers(scene(), step)] == []


@pytest.mark.parametrize("step", CleanupStep)
def test_whoever_still_names_it_is_in_the_way_of_every_step(step: CleanupStep) -> None:
    """An orchestrator, and one that is itself deprecated: any definition counts."""
    other = card("helper", sub_agents=("shop",), deprecated=True)
    said = blockers(scene(other, sub_agents=["shop"]), step)

    assert said == (
        "concierge still names shop in `sub_agents`, and nothing else fills it",
        "helper still names shop in `sub_agents`, and nothing else fills it",
    )


@pytest.mark.parametrize(
    ("other", "state", "fills"),
    [
        ({}, LifecycleState.PROMOTE, True),
        ({}, LifecycleState.DEV, True),
        ({}, None, True),
        ({}, LifecycleState.ROLLBACK, False),
        ({"deprecated": True}, LifecycleState.PROMOTE, False),
    ],
)
def test_a_list_may_name_the_slot_if_another_definition_fills_it(
    other: dict[str, Any], state: LifecycleState | None, *, fills: bool
) -> None:
    """Not one that is deprecated or rolled back, as in check b of validate-refs."""
    second = card("shop2", slot="shop", **other)
    also = None if state is None else msgspec.structs.replace(facts("shop2", state), digest=second.digest)
    assert (blockers(scene(second, sub_agents=["shop"], also=also), ENTRY) == ()) == fills


def test_blocks_that_only_it_used_have_to_go_and_shared_ones_and_the_platforms_stay() -> None:
    """`tone` is used by rewards, too; nobody else uses `persona-shop`; two are the platform's."""
    found = scene(card("rewards", "tone persona-fetch-assistant@platform"))
    full = msgspec.structs.replace(found, catalogue=with_everything(found.catalogue))

    assert own_blocks(SHOP, found.catalogue) == ("persona-shop",)
    assert blockers(full, BLOCKS) == ("the prompt block persona-shop still exists, and no other definition uses it",)
    assert blockers(full, MODULES) == ()
    assert blockers(found, BLOCKS) == ()


def test_tools_that_only_it_used_have_to_go_if_that_was_decided_and_stay_otherwise() -> None:
    """`pay` is used by rewards, too."""
    others = card("rewards", tools="pay")
    assert own_tools(SHOP, a_catalogue(others)) == ("find",)
    for choice, said in (
        (None, ()),
        (Choice.RETAIN, ()),
        (Choice.REMOVE, ("the tool find still exists, and no other definition uses it",)),
    ):
        found = scene(others, tools=choice)
        full = replace(with_everything(found.catalogue), blocks=frozenset())
        assert blockers(msgspec.structs.replace(found, catalogue=full), EVALS_AND_TOOLS) == said


@requirement("PF1-D-67")
def test_everything_that_is_left_is_named_and_a_pending_decision_is_part_of_it() -> None:
    """Entry, reference, block, tool, module, decision, and each step that nobody has taken."""
    found = scene(card("shop", deprecated=True), sub_agents=["shop"], tools=Choice.REMOVE)
    full = msgspec.structs.replace(found, catalogue=with_everything(found.catalogue))
    said = " | ".join(leftovers(full))

    for part in (
        "the entry of shop is still in agent_config.yaml",
        "concierge still names shop",
        "the prompt block persona-shop",
        "the tool find",
        "the tool pay",
        "the removal of its Python modules is not confirmed yet (step 3)",
        "no decision yet about its evals",
        "step 5 (evals and tools) is not taken",
    ):
        assert part in said
    assert "decision yet about its tools" not in said


def test_code_that_is_only_deprecated_is_left_and_at_the_end_nothing_is() -> None:
    """All five steps are taken; the first time with the code deprecated."""
    decided = Decision(choice=Choice.RETAIN, at=NOW, by="ada", reason="because")
    for code, left in ((CodeStatus.DEPRECATED, 1), (CodeStatus.GONE, 0)):
        steps = tuple(
            CompletedStep(step=step, at=NOW, by="ada", reason="because", code=code if step is MODULES else None)
            for step in CleanupStep
        )
        record = Decommission(
            began_at=NOW, due_at=NOW, by="ada", reason="because", steps=steps, evals=decided, tools=decided
        )
        found = scene()
        ended = msgspec.structs.replace(found, facts=msgspec.structs.replace(found.facts, decommission=record))
        assert len(leftovers(ended)) == left
