"""Contracts as whole values: of a call, and of a delegation where each side is the smaller one."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.definitions.cards.card import Limits
from sidecar.core.executing.contract import (
    GOAL_SUMMARY_LIMIT,
    Ancestor,
    Budgets,
    Contract,
    Execution,
    Outputs,
    Parent,
    Permissions,
    TurnText,
    WorkflowStep,
    contract_template,
)
from sidecar.core.executing.delegation import (
    MOST_DELEGATIONS,
    DelegationContext,
    DelegationRefusal,
    RemainingBudget,
    delegate_card,
    delegation_refusal,
    narrowed_permissions,
)
from sidecar.core.identifiers import ChildId, Slot, ToolId, TurnId
from tests.support.builders import a_card, a_surface, contract_of
from tests.support.requirement import requirement

OUTPUTS = Outputs(report_format="markdown", report_path_pattern=".orchestrix/step-<idx>-result.md")
SECOND = timedelta(seconds=1)


def a_tool(name: str = "shop", **fields: Any) -> SurfaceTool:
    """Return a tool with those fields of its card."""
    return a_surface(cards=[a_card(name, **fields)]).tools[0]


@requirement("SX-5", "SX-6", "SX-7", "SX-8")
def test_the_contract_of_a_call_is_what_card_and_call_say() -> None:
    """Every limit is set, and each has another value."""
    limits = Limits(
        attempt_timeout=timedelta(seconds=2.0006),
        max_retries=1,
        close_on_completion=False,
        wall_clock=timedelta(seconds=3),
        tool_calls=4,
        tokens=5,
        idle_timeout=timedelta(seconds=6),
        max_delegation_depth=1,
    )
    tool = a_tool(limits=limits, tools=(ToolId("x"),), success_criteria=("names a price",), ownership=("cart",))
    contract = contract_of(tool)

    assert contract == Contract(
        parent=Parent(run_id="t1", step_idx=3, task_prompt="words", goal_summary="before"),
        step=WorkflowStep(title="ask_shop", description="asked", success_criteria=("names a price",)),
        permissions=Permissions(allowed_tools=(ToolId("x"),), can_spawn_children=True, max_delegation_depth=1),
        execution=Execution(attempt_timeout_ms=2001, max_retries=1, close_on_completion=False),
        outputs=OUTPUTS,
        budgets=Budgets(wall_clock_ms=3000, tool_calls=4, tokens=5, idle_timeout_ms=6000, time_left_ms=100_000),
        sub_agent_id=Slot("shop"),
        definition_id="shop",
        definition_digest=tool.card.digest,
        definition_commit=tool.card.commit,
        ownership=("slot:shop", "cart"),
    )
    assert contract.attempt_timeout == timedelta(milliseconds=2001)


def test_limits_that_a_card_leaves_out_are_no_limits_and_none_rounds_to_nothing() -> None:
    """A tenth of a millisecond is one; a summary is kept to its 16384th character."""
    limits = Limits(attempt_timeout=SECOND / 10_000, wall_clock=None, tool_calls=None, tokens=None, idle_timeout=None)
    tool = a_tool(limits=limits)
    contract = contract_of(tool, text=TurnText("", "x" * GOAL_SUMMARY_LIMIT + "y"))
    none = Budgets(wall_clock_ms=None, tool_calls=None, tokens=None, idle_timeout_ms=None, time_left_ms=100_000)
    assert contract.budgets == none
    assert contract.execution.attempt_timeout_ms == 1
    assert (contract.parent.goal_summary, GOAL_SUMMARY_LIMIT) == ("x" * 16_384, 16_384)
    assert not contract.permissions.can_spawn_children


@pytest.mark.parametrize(("seconds", "left"), [(1.5, 1500), (0.0009, 0), (-1.0, 0), (2.0, 2000)])
def test_a_contract_says_how_much_time_is_left(seconds: float, left: int) -> None:
    """In whole milliseconds, never less than none; nothing else changes."""
    tool = a_tool()
    contract, budgets = contract_of(tool), msgspec.structs.replace(contract_of(tool).budgets, time_left_ms=left)
    written = contract_template(tool).filled(TurnId("t1"), 3, TurnText("words", "before"), "asked", seconds)
    assert written.contract == msgspec.structs.replace(contract, budgets=budgets)


def parent(left: RemainingBudget, **limits: Any) -> DelegationContext:
    """Return a child of slot `plan` that may delegate, with 100 s left."""
    limits = {"max_delegation_depth": 2} | limits
    tool = a_tool("plan", limits=Limits(**limits), tools=(ToolId("x"), ToolId("y")))
    return DelegationContext(ChildId("k0"), contract_of(tool), left)


SMALL: dict[str, Any] = {
    "attempt_timeout": 2 * SECOND,
    "max_retries": 0,
    "wall_clock": 3 * SECOND,
    "tool_calls": 4,
    "tokens": 5,
    "max_delegation_depth": 1,
}
LARGE: dict[str, Any] = {
    "attempt_timeout": 20 * SECOND,
    "max_retries": 2,
    "wall_clock": 30 * SECOND,
    "tool_calls": 40,
    "tokens": 50,
    "max_delegation_depth": 3,
}
UNLIMITED: dict[str, Any] = {"wall_clock": None, "tool_calls": None, "tokens": None}
SMALL_BUDGETS = Budgets(wall_clock_ms=3000, tool_calls=4, tokens=5, idle_timeout_ms=6000, time_left_ms=60_000)
PLENTY = RemainingBudget(time_ms=60_000)


@requirement("SX-15", "SX-17")
@pytest.mark.parametrize(
    ("above", "below", "left", "execution", "budgets", "depth"),
    [
        (LARGE, SMALL, PLENTY, (2000, 0), SMALL_BUDGETS, 1),
        (SMALL | {"max_delegation_depth": 2}, LARGE, PLENTY, (2000, 0), SMALL_BUDGETS, 1),
        (
            LARGE,
            LARGE | {"max_delegation_depth": 0},
            RemainingBudget(time_ms=1500, wall_clock_ms=1600, tool_calls=1, tokens=2),
            (1500, 2),
            Budgets(wall_clock_ms=1600, tool_calls=1, tokens=2, idle_timeout_ms=6000, time_left_ms=1500),
            0,
        ),
        (
            LARGE | UNLIMITED,
            LARGE | UNLIMITED,
            RemainingBudget(time_ms=200_000),
            (20_000, 2),
            Budgets(wall_clock_ms=None, tool_calls=None, tokens=None, idle_timeout_ms=6000, time_left_ms=100_000),
            2,
        ),
    ],
)
def test_a_delegation_has_the_smaller_of_everything(
    above: dict[str, Any],
    below: dict[str, Any],
    left: RemainingBudget,
    execution: tuple[int, int],
    budgets: Budgets,
    depth: int,
) -> None:
    """What the asked card says, what the parent's contract says, and what the parent has left, each once the least."""
    asking = parent(left, **above)
    limits = Limits(idle_timeout=6 * SECOND, close_on_completion=False, **below)
    tool = a_tool(limits=limits, tools=(ToolId("z"), ToolId("y")), success_criteria=("cheap",), ownership=("cart",))

    assert narrowed_permissions(asking, tool, 7, "the price") == Contract(
        parent=Parent(run_id="t1", step_idx=7, task_prompt="asked", goal_summary="before"),
        step=WorkflowStep(title="ask_shop", description="the price", success_criteria=("cheap",)),
        permissions=Permissions(allowed_tools=(ToolId("y"),), can_spawn_children=depth > 0, max_delegation_depth=depth),
        execution=Execution(attempt_timeout_ms=execution[0], max_retries=execution[1], close_on_completion=True),
        outputs=OUTPUTS,
        budgets=budgets,
        sub_agent_id=Slot("shop"),
        definition_id="shop",
        definition_digest=tool.card.digest,
        definition_commit=tool.card.commit,
        ownership=("slot:shop", "cart"),
        parent_child_id=ChildId("k0"),
        ancestors=(Ancestor(child_id=ChildId("k0"), sub_agent_id=Slot("plan"), definition_id="plan"),),
    )


def test_a_card_without_idle_timeout_or_clock_hands_on_what_the_parent_has() -> None:
    """A tenth of a millisecond of its own is one."""
    tool = a_tool(limits=Limits(idle_timeout=None, wall_clock=None, attempt_timeout=SECOND / 10_000))
    made = narrowed_permissions(parent(PLENTY, wall_clock=SECOND), tool, 1, "asked")
    assert isinstance(made, Contract)
    assert (made.budgets.idle_timeout_ms, made.budgets.wall_clock_ms) == (None, 1000)
    assert made.execution.attempt_timeout_ms == 1


@pytest.mark.parametrize(
    ("left", "used_up"),
    [
        (RemainingBudget(time_ms=1, wall_clock_ms=1, tool_calls=1, tokens=1, delegations=MOST_DELEGATIONS - 1), False),
        (RemainingBudget(time_ms=1), False),
        (RemainingBudget(time_ms=0), True),
        (RemainingBudget(time_ms=1, wall_clock_ms=0), True),
        (RemainingBudget(time_ms=1, tool_calls=0), True),
        (RemainingBudget(time_ms=1, tokens=0), True),
        (RemainingBudget(time_ms=1, delegations=MOST_DELEGATIONS), True),
    ],
)
def test_one_of_each_is_enough_and_none_of_any_is_nothing(left: RemainingBudget, used_up: bool) -> None:
    """32 delegations are the most."""
    assert left.is_used_up == used_up
    assert (narrowed_permissions(parent(left), a_tool(), 1, "x") is DelegationRefusal.BUDGET) == used_up
    assert MOST_DELEGATIONS == 32


def test_a_contract_that_allows_no_delegation_says_why_and_asks_nobody() -> None:
    """Off, or as deep as allowed; else every sub-agent but the child itself and those who wait for it."""
    surface = a_surface("plan", "shop", "rewards")
    contract = parent(PLENTY).contract
    deep = msgspec.structs.replace(contract.permissions, max_delegation_depth=0)
    off = msgspec.structs.replace(contract.permissions, can_spawn_children=False)

    assert delegation_refusal(contract) is None
    assert [tool.slot for tool in delegate_card(contract, surface)] == ["shop", "rewards"]
    for permissions, why in ((deep, DelegationRefusal.DEPTH), (off, DelegationRefusal.OFF)):
        barred = msgspec.structs.replace(contract, permissions=permissions)
        assert delegation_refusal(barred) is why
        assert delegate_card(barred, surface) == ()


def test_who_waits_is_known_by_slot_or_by_definition() -> None:
    """The same slot with another definition, the same definition in another slot, each refused as a cycle."""
    asking = parent(PLENTY)
    same_slot, same_definition = a_tool("other", slot=Slot("plan")), a_tool("plan", slot=Slot("elsewhere"))
    for tool in (same_slot, same_definition):
        assert narrowed_permissions(asking, tool, 1, "x") is DelegationRefusal.CYCLE
