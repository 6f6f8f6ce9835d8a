"""What a child may delegate: never more than it has itself.

All decisions use the contract of the delegating child and the sidecar's own measurements; the child's claims do not
count. Source: SX-14 .. SX-17, TN-101.
"""

from datetime import timedelta
from enum import StrEnum, unique

import msgspec

from sidecar.core.binding.surface import Surface, SurfaceTool
from sidecar.core.definitions.cards.card import Limits
from sidecar.core.executing.contract import (
    DEFAULT_OUTPUTS,
    Ancestor,
    Budgets,
    Contract,
    Execution,
    Parent,
    Permissions,
    WorkflowStep,
)
from sidecar.core.identifiers import ChildId

MOST_DELEGATIONS = 32
"""The most delegations of one child over all attempts, whatever its budget: each creates a child to be stored."""


@unique
class DelegationRefusal(StrEnum):
    """Why a sub-agent may not delegate."""

    OFF = "off"
    """Its contract does not allow delegation. The default."""
    DEPTH = "depth"
    """The depth of delegation that its contract allows is reached."""
    CYCLE = "cycle"
    """The requested sub-agent waits for this one, or is this one."""
    NOT_BOUND = "not_bound"
    """The surface of the turn does not have the sub-agent."""
    BUSY = "busy"
    """Another call holds, or waits for, the data that it would own. Waiting could deadlock."""
    COST_BUDGET = "cost_budget"
    """The budget in money of the turn, or of the user's day, is used up."""
    BUDGET = "budget"
    """The remaining budget is too small to share."""


class RemainingBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The remaining budget of a running child. None: no such limit.

    Attributes:
        time_ms: until its attempt must end.
        wall_clock_ms: of its budget over all attempts.
        delegations: number so far, over all attempts.
    """

    time_ms: int
    wall_clock_ms: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    delegations: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left to share."""
        amounts = (self.time_ms, self.wall_clock_ms, self.tool_calls, self.tokens)
        # None is no limit; 0 or less is a limit that is used up.
        return self.delegations >= MOST_DELEGATIONS or any(each is not None and each <= 0 for each in amounts)


class DelegationContext(msgspec.Struct, frozen=True):
    """The delegating child: its id, its stored contract, and its remaining budget."""

    child_id: ChildId
    contract: Contract
    left: RemainingBudget


def delegation_refusal(contract: Contract) -> DelegationRefusal | None:
    """Return why the child may not delegate at all; None if it may."""
    if not contract.permissions.can_spawn_children:
        return DelegationRefusal.OFF
    return DelegationRefusal.DEPTH if contract.permissions.max_delegation_depth <= 0 else None


def is_cycle(contract: Contract, tool: SurfaceTool) -> bool:
    """Return whether `tool` is the child itself or waits for it: by slot, or by its definition under another slot."""
    above = [(each.sub_agent_id, each.definition_id) for each in contract.ancestors]
    # All of them wait for their delegate: a call of one of them could only end when it ended itself.
    waiting = [(contract.sub_agent_id, contract.definition_id), *above]
    # Both are compared, because one definition may serve two slots.
    return any(tool.slot == slot or tool.card.definition.id == definition_id for slot, definition_id in waiting)


def delegate_card(contract: Contract, surface: Surface) -> tuple[SurfaceTool, ...]:
    """Return the sub-agents that the child's contract allows as delegates, in the surface's order."""
    if delegation_refusal(contract) is not None:
        return ()
    return tuple(tool for tool in surface.tools if not is_cycle(contract, tool))


def path_of(child_id: ChildId, contract: Contract) -> tuple[Ancestor, ...]:
    """Return a child's ancestors and the child itself, which are the ancestors of its delegates."""
    itself = Ancestor(child_id=child_id, sub_agent_id=contract.sub_agent_id, definition_id=contract.definition_id)
    return (*contract.ancestors, itself)


def narrowed_permissions(
    parent: DelegationContext, tool: SurfaceTool, step_idx: int, request: str
) -> Contract | DelegationRefusal:
    """Return the contract of a delegated child, or why there can be none.

    Each permission, budget and time limit is the smaller one of two: the limit of the requested card, and the rest that
    the parent has.

    Args:
        parent: the delegating child.
        tool: the requested sub-agent, as bound.
        step_idx: emission index over the turn.
        request: the request in words.

    Source: SX-15, SX-17, DESIGN section 5.
    """
    contract, left = parent.contract, parent.left
    refusal = delegation_refusal(contract)
    if refusal is not None:
        return refusal
    if is_cycle(contract, tool):
        return DelegationRefusal.CYCLE
    # After the checks that depend only on the contract: these give the same answer however often they are asked.
    if left.is_used_up:
        return DelegationRefusal.BUDGET
    definition = tool.card.definition
    return Contract(
        parent=Parent(
            run_id=contract.parent.run_id,
            step_idx=step_idx,
            # The task of the delegate is a part of what the delegating child was asked, not of the whole turn.
            task_prompt=contract.step.description,
            goal_summary=contract.parent.goal_summary,
        ),
        step=WorkflowStep(title=tool.name, description=request, success_criteria=definition.success_criteria),
        permissions=_permissions(contract.permissions, tool),
        execution=_execution(contract.execution, definition.limits, left),
        outputs=DEFAULT_OUTPUTS,
        budgets=_budgets(contract.budgets, definition.limits, left),
        sub_agent_id=tool.slot,
        definition_id=definition.id,
        definition_digest=tool.card.digest,
        definition_commit=tool.card.commit,
        ownership=tool.ownership,
        parent_child_id=parent.child_id,
        ancestors=path_of(parent.child_id, contract),
    )


def _permissions(parent: Permissions, tool: SurfaceTool) -> Permissions:
    definition = tool.card.definition
    depth = definition.limits.max_delegation_depth
    return Permissions(
        # The intersection: otherwise a sub-agent could reach a forbidden tool through another one.
        allowed_tools=tuple(each for each in definition.tools if each in parent.allowed_tools),
        can_spawn_children=parent.can_spawn_children and depth > 0,
        # One less at each level, so that a chain of delegations ends whatever the cards of its sub-agents allow.
        max_delegation_depth=min(depth, parent.max_delegation_depth - 1),
    )


def _execution(parent: Execution, limits: Limits, left: RemainingBudget) -> Execution:
    # `left.time_ms` ends with the attempt that waits for this delegation: a longer one would work for no caller.
    timeout = min(_milliseconds(limits.attempt_timeout), parent.attempt_timeout_ms, left.time_ms)
    return Execution(
        attempt_timeout_ms=timeout,
        max_retries=min(limits.max_retries, parent.max_retries),
        close_on_completion=True,  # the sidecar joins it: the orchestrator does not know the child and cannot close it
    )


def _budgets(parent: Budgets, limits: Limits, left: RemainingBudget) -> Budgets:
    own_clock = None if limits.wall_clock is None else _milliseconds(limits.wall_clock)
    # Not narrowed by the parent's: it detects a dead runner, and grants nothing.
    idle = None if limits.idle_timeout is None else _milliseconds(limits.idle_timeout)
    return Budgets(
        wall_clock_ms=_least(own_clock, parent.wall_clock_ms, left.wall_clock_ms),
        tool_calls=_least(limits.tool_calls, parent.tool_calls, left.tool_calls),
        tokens=_least(limits.tokens, parent.tokens, left.tokens),
        idle_timeout_ms=idle,
        # Without a limit of the card: the delegate must end before the attempt that waits for it.
        time_left_ms=_least(parent.time_left_ms, left.time_ms),
    )


def _least(*amounts: int | None) -> int | None:
    return min((each for each in amounts if each is not None), default=None)


def _milliseconds(duration: timedelta) -> int:
    # At least 1: in a contract, 0 could be read as "no limit".
    return max(1, round(duration.total_seconds() * 1000))
