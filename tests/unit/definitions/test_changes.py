"""Which change of a definition is major: an oracle out of the specification against the function, on any change."""

from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import (
    AgentDefinition,
    BlockCategory,
    Card,
    Limits,
    ModelEntry,
    PromptBlock,
    Role,
    RunnerRef,
    ToolEntry,
    Tuning,
)
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.definitions.changes import changes_between, nested_changes
from sidecar.core.identifiers import BlockId, Commit, DefinitionId, ModelId, Slot, ToolId, Vertical

NAMES: Final = st.sampled_from(["a", "b", "c"])
LISTS: Final = st.lists(NAMES, unique=True, max_size=3).map(tuple)
VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "description": st.sampled_from(["Finds.", "Finds offers."]),
    "role": st.sampled_from(Role),
    "model": NAMES.map(ModelId),
    "tools": LISTS,
    "prompt_blocks": LISTS,
    "sub_agents": LISTS,
    "tuning": st.sampled_from([Tuning(), Tuning(max_output_tokens=5)]),
    "enabled_via_flag": st.sampled_from([None, "ai_assistant_subagent_shop"]),
    "deprecated": st.booleans(),
    "slot": st.sampled_from([Slot("shop"), Slot("store")]),
    "vertical": st.sampled_from([Vertical("shop"), Vertical("store")]),
    "runner": st.sampled_from([RunnerRef(), RunnerRef("grpc")]),
    "arguments": st.sampled_from([{"type": "object"}, {"type": "object", "required": ["x"]}]),
    "ownership": LISTS,
    "limits": st.sampled_from([Limits(), Limits(attempt_timeout=timedelta(seconds=5))]),
    "components": st.sampled_from([{}, {"render_x": {"type": "object"}}]),
    "success_criteria": LISTS,
    "allow_empty_answer": st.booleans(),
    "verbatim_text": st.booleans(),
}
DEFINITIONS: Final = st.fixed_dictionaries(VALUES).map(lambda said: AgentDefinition(id=DefinitionId("shop"), **said))

MODEL: Final = ModelEntry(ModelId("nano"), "nano-1", 1_000)
TOOL: Final = ToolEntry(ToolId("search"), "Searches.")
BLOCK: Final = PromptBlock(BlockId("persona"), BlockCategory.PERSONA, "Be kind.", None, "shop", "persona.yaml")


def card(definition: AgentDefinition, model: ModelEntry, tool: ToolEntry, block: PromptBlock) -> Card:
    """Return the card of a definition that lists one of each."""
    digest = digest_of_card(definition, model, (tool,), (block,))
    return Card(definition, model, (tool,), (block,), digest, Commit(digest))


def is_major(old: AgentDefinition, new: AgentDefinition) -> bool:
    """Say what the specification says: PF1-FR-12a and PF1-D-58; and another slot is another definition."""
    tools = set[str](old.tools) ^ set[str](new.tools)
    blocks = set[str](old.prompt_blocks) ^ set[str](new.prompt_blocks)
    return bool(old.model != new.model or tools or blocks or old.slot != new.slot)


def test_every_field_of_a_definition_is_drawn() -> None:
    """A field that is added later must be decided on, too."""
    assert set(AgentDefinition.__struct_fields__) == {"id", *VALUES}


@given(old=DEFINITIONS, new=DEFINITIONS)
def test_a_change_is_major_exactly_if_the_specification_says_so(old: AgentDefinition, new: AgentDefinition) -> None:
    """Whatever else changes; a field is under one heading at most, and every field that differs is under one."""
    changes = changes_between(old, new)

    assert bool(changes.major) == is_major(old, new)
    named = [change.field for change in (*changes.major, *changes.minor)]
    assert sorted(named) == sorted(name for name in VALUES if getattr(old, name) != getattr(new, name))


@given(old=DEFINITIONS, new=DEFINITIONS)
def test_inside_a_slot_what_is_major_is_what_makes_another_shape(old: AgentDefinition, new: AgentDefinition) -> None:
    """What stops a merge is what starts a rollout anew: the two cannot come apart."""
    new = replace(new, slot=old.slot)
    before, after = card(old, MODEL, TOOL, BLOCK), card(new, MODEL, TOOL, BLOCK)
    changes = changes_between(before, after)

    assert bool(changes.major) == (before.shape != after.shape)
    assert bool(changes.major or changes.minor) == (before.digest != after.digest)


@given(order=st.permutations(["a", "b", "c"]))
@pytest.mark.parametrize("name", ["tools", "prompt_blocks"])
def test_a_new_order_is_minor_and_comes_with_a_caution(name: str, order: list[str]) -> None:
    """The three names in any order."""
    old = AgentDefinition(DefinitionId("shop"), "Finds.", Role.NATIVE, ModelId("nano"))
    first: dict[str, Any] = {name: ("a", "b", "c")}
    then: dict[str, Any] = {name: tuple(order)}
    before, after = replace(old, **first), replace(old, **then)

    changes = changes_between(before, after)

    assert changes.major == ()
    assert [(change.field, bool(change.caution)) for change in changes.minor] == (
        [] if order == ["a", "b", "c"] else [(name, True)]
    )


@pytest.mark.parametrize(
    ("model", "tool", "block", "field"),
    [
        (replace(MODEL, provider_model="nano-2"), TOOL, BLOCK, "model:nano.provider_model"),
        (MODEL, replace(TOOL, description="Looks."), BLOCK, "tool:search.description"),
        (MODEL, TOOL, replace(BLOCK, instructions="Be brief."), "block:persona.instructions"),
    ],
)
def test_a_change_inside_what_a_definition_uses_is_minor(
    model: ModelEntry, tool: ToolEntry, block: PromptBlock, field: str
) -> None:
    """The digest is another; a block that only moved is the same."""
    definition = AgentDefinition(DefinitionId("shop"), "Finds.", Role.NATIVE, ModelId("nano"))
    old, new = card(definition, MODEL, TOOL, BLOCK), card(definition, model, tool, block)

    changes = changes_between(old, new)

    assert (changes.major, [change.field for change in changes.minor]) == ((), [field])
    assert nested_changes(BLOCK, replace(BLOCK, path="elsewhere.yaml")) == ()


def test_states_of_two_definitions_are_not_compared() -> None:
    """Nobody can say what became of what."""
    one = AgentDefinition(DefinitionId("shop"), "Finds.", Role.NATIVE, ModelId("nano"))

    with pytest.raises(ValueError, match="are two definitions"):
        changes_between(one, replace(one, id=DefinitionId("store")))
