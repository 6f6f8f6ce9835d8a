"""Delegation only narrows, whoever asks whom."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.core.binding.surface import Surface, SurfaceTool
from sidecar.core.definitions.cards.card import Card, Limits
from sidecar.core.executing.contract import Contract, contract_from_json
from sidecar.core.executing.delegation import (
    MOST_DELEGATIONS,
    DelegationContext,
    DelegationRefusal,
    RemainingBudget,
    delegation_refusal,
    is_cycle,
    narrowed_permissions,
)
from sidecar.core.identifiers import ChildId, DefinitionId, Slot, ToolId
from tests.support.builders import a_card, a_surface, contract_of
from tests.support.requirement import requirement

SLOTS = ("a", "b", "c", "d", "e")
TOOLS = tuple(ToolId(name) for name in ("read", "write", "READ", "rea", "read2"))
PLENTY = RemainingBudget(time_ms=60_000)

amounts = st.none() | st.integers(1, 50)
seconds = st.none() | st.integers(1, 200)


@st.composite
def cards(draw: st.DrawFn, slot: str) -> Card:
    """Draw a card with any limits."""
    clock = draw(seconds)
    limits = Limits(
        attempt_timeout=timedelta(seconds=draw(st.integers(1, 200))),
        max_retries=draw(st.integers(0, 3)),
        wall_clock=None if clock is None else timedelta(seconds=clock),
        tool_calls=draw(amounts),
        tokens=draw(amounts),
        max_delegation_depth=draw(st.integers(0, 5)),
    )
    return a_card(slot, limits=limits, tools=tuple(draw(st.lists(st.sampled_from(TOOLS), unique=True))))


@st.composite
def what_is_left(draw: st.DrawFn, contract: Contract) -> RemainingBudget:
    """Draw what a child may have left under its contract: never more than the contract gave."""

    def part(whole: int | None) -> int | None:
        return None if whole is None else draw(st.integers(0, whole))

    most = contract.execution.attempt_timeout_ms
    ends = contract.budgets.time_left_ms
    return RemainingBudget(
        time_ms=draw(st.integers(0, most if ends is None else min(most, ends))),
        wall_clock_ms=part(contract.budgets.wall_clock_ms),
        tool_calls=part(contract.budgets.tool_calls),
        tokens=part(contract.budgets.tokens),
    )


def root_of(tool: SurfaceTool) -> Contract:
    """Return the contract of the orchestrator's call to `tool`."""
    return contract_of(tool)


def tool_of(surface: Surface, slot: str) -> SurfaceTool:
    """Return the tool of a slot."""
    return next(tool for tool in surface.tools if tool.slot == slot)


def widened(above: Contract, below: Contract, left: RemainingBudget) -> list[str]:
    """Return what `below` has more of than `above` had left; the contracts are read back from their stored text."""
    above, below = contract_from_json(above.to_json()), contract_from_json(below.to_json())
    pairs = {
        "retries": (above.execution.max_retries, below.execution.max_retries),
        "attempt": (min(above.execution.attempt_timeout_ms, left.time_ms), below.execution.attempt_timeout_ms),
        "wall clock": (above.budgets.wall_clock_ms, below.budgets.wall_clock_ms),
        "wall clock left": (left.wall_clock_ms, below.budgets.wall_clock_ms),
        "tool calls": (left.tool_calls, below.budgets.tool_calls),
        "tokens": (left.tokens, below.budgets.tokens),
        "deadline": (above.budgets.time_left_ms, below.budgets.time_left_ms),
        "deadline left": (left.time_ms, below.budgets.time_left_ms),
        "depth": (above.permissions.max_delegation_depth - 1, below.permissions.max_delegation_depth),
    }
    more = [name for name, (had, has) in pairs.items() if had is not None and (has is None or has > had)]
    if not set(below.permissions.allowed_tools) <= set(above.permissions.allowed_tools):
        more.append("tools")
    if below.permissions.can_spawn_children and not above.permissions.can_spawn_children:
        more.append("spawning")
    return more


@requirement("SX-2", "SX-15")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_path_of_delegations_widens_anything(data: st.DataObject) -> None:
    """Any cards, any path, anything left on the way: tools, time, budgets, retries and depth only become less."""
    surface = a_surface(cards=[data.draw(cards(slot)) for slot in SLOTS])
    contract = root_of(tool_of(surface, data.draw(st.sampled_from(SLOTS))))
    first_depth, steps = contract.permissions.max_delegation_depth, 0
    while steps <= len(SLOTS):
        left = data.draw(what_is_left(contract))
        asked = data.draw(st.sampled_from(surface.tools))
        made = narrowed_permissions(
            DelegationContext(ChildId(f"child-{steps}"), contract, left), asked, steps + 1, "asked"
        )
        if isinstance(made, DelegationRefusal):
            return
        steps += 1
        assert widened(contract, made, left) == []
        assert steps <= first_depth
        slots = [each.sub_agent_id for each in made.ancestors]
        assert asked.slot not in slots
        assert [each.child_id for each in made.ancestors] == [f"child-{n}" for n in range(steps)]
        assert made.parent_child_id == f"child-{steps - 1}"
        contract = made
    raise AssertionError("a path longer than there are slots")


def a_parent(
    slot: str = "a", *, tools: tuple[ToolId, ...] = (), depth: int = 1, left: RemainingBudget = PLENTY
) -> DelegationContext:
    """Return a child that may delegate."""
    card = a_card(slot, tools=tools, limits=Limits(max_delegation_depth=depth))
    return DelegationContext(ChildId("child-0"), root_of(a_surface(cards=[card]).tools[0]), left)


@requirement("SX-14", "SX-17")
def test_delegation_is_off_unless_the_contract_says_otherwise() -> None:
    """A card that says nothing."""
    parent = a_parent(depth=0)

    assert narrowed_permissions(parent, a_surface("b").tools[0], 1, "asked") is DelegationRefusal.OFF


@requirement("SX-15")
def test_depth_ends_the_chain_although_the_cards_allow_more() -> None:
    """The first allows one level, the second five: the third is refused for its depth, not as if it were off."""
    surface = a_surface(cards=[a_card("b", limits=Limits(max_delegation_depth=5)), a_card("c")])

    second = narrowed_permissions(a_parent(depth=1), surface.tools[0], 1, "asked")

    assert isinstance(second, Contract)
    assert delegation_refusal(second) is DelegationRefusal.DEPTH
    assert (
        narrowed_permissions(DelegationContext(ChildId("x"), second, PLENTY), surface.tools[1], 2, "asked")
        is DelegationRefusal.DEPTH
    )


def test_nobody_who_waits_is_asked_again_under_any_name() -> None:
    """Itself, its ancestor, and its ancestor's definition in another slot."""
    ancestor = a_parent("a", depth=3)
    second = narrowed_permissions(
        ancestor, a_surface(cards=[a_card("b", limits=Limits(max_delegation_depth=3))]).tools[0], 1, "x"
    )
    assert isinstance(second, Contract)
    alias = msgspec.structs.replace(second.ancestors[0], sub_agent_id=Slot("other"))
    renamed = msgspec.structs.replace(second, ancestors=(alias,))

    assert is_cycle(second, a_surface("a").tools[0])
    assert is_cycle(second, a_surface("b").tools[0])
    assert is_cycle(renamed, a_surface("a").tools[0])
    assert not is_cycle(second, a_surface("c").tools[0])


@pytest.mark.parametrize("fake", ["READ", "rea", "read2", "read ", "rеad", "ｒｅａｄ", "read\u200b"])  # noqa: RUF001 - look-alikes are the point
def test_a_tool_is_handed_on_under_its_exact_id_only(fake: str) -> None:
    """Case, prefix, suffix, another alphabet, another width, an invisible character."""
    parent = a_parent(tools=(ToolId("read"),))
    asked = a_surface(cards=[a_card("b", tools=(ToolId(fake), ToolId("read")))]).tools[0]

    made = narrowed_permissions(parent, asked, 1, "asked")

    assert isinstance(made, Contract)
    assert made.permissions.allowed_tools == ("read",)


@pytest.mark.parametrize(
    "left",
    [
        RemainingBudget(time_ms=0),
        RemainingBudget(time_ms=1, wall_clock_ms=0),
        RemainingBudget(time_ms=1, tool_calls=0),
        RemainingBudget(time_ms=1, tokens=-3),
        RemainingBudget(time_ms=1, delegations=MOST_DELEGATIONS),
    ],
)
def test_nothing_left_is_nothing_to_hand_on(left: RemainingBudget) -> None:
    """Each of time, wall clock, calls, tokens and delegations."""
    assert narrowed_permissions(a_parent(left=left), a_surface("b").tools[0], 1, "asked") is DelegationRefusal.BUDGET


@requirement("SX-10")
def test_a_delegated_contract_is_whole() -> None:
    """It is read back as it was written, with the parent that asks and what it asks for."""
    made = narrowed_permissions(a_parent(), a_surface("b").tools[0], 4, "the price of oats")

    assert isinstance(made, Contract)
    assert contract_from_json(made.to_json()) == made
    assert (made.parent.run_id, made.parent.step_idx, made.parent.task_prompt) == ("t1", 4, "asked")
    assert (made.step.title, made.step.description) == ("ask_b", "the price of oats")
    assert DefinitionId(made.definition_id) == "b"
    assert made.execution.close_on_completion
