"""What a child may do and for how long: the delegation contract.

Stored as JSON with the field names of SX §2, plus fields of our own beside them.
"""

from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import Limits
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.identifiers import ChildId, Slot, ToolId, TurnId

GOAL_SUMMARY_LIMIT = 16 * 1024
"""Characters; a summary is bounded so that a contract does not grow with the conversation (TN-14)."""


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """Source: SX-5."""

    run_id: str
    step_idx: int
    task_prompt: str
    goal_summary: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Source: SX-6."""

    title: str
    description: str
    success_criteria: tuple[str, ...]


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Source: SX-7. `allowed_tools` are exact ids; empty means none."""

    allowed_tools: tuple[ToolId, ...]
    can_spawn_children: bool
    max_delegation_depth: int


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """Source: SX-8."""

    attempt_timeout_ms: int
    max_retries: int
    close_on_completion: bool


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """Source: SX-9, SX-11."""

    report_format: str
    report_path_pattern: str


DEFAULT_OUTPUTS: Final = Outputs(report_format="markdown", report_path_pattern=".orchestrix/step-<idx>-result.md")


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used over all attempts; None: no limit.

    Attributes:
        time_left_ms: from the making of the contract until the child is stopped, whatever else it says; a child that
            was delegated to ends with the attempt of its parent.
        idle_timeout_ms: longest silence of the runner; says whether it is alive, and gives no right to anything.
    """

    wall_clock_ms: int | None
    tool_calls: int | None
    tokens: int | None
    idle_timeout_ms: int | None
    time_left_ms: int | None = None


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """A child that is waited for further up: who may not be asked again below it."""

    child_id: ChildId
    sub_agent_id: Slot
    definition_id: str


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """The delegation contract of one child. Immutable once the child exists (SX-12).

    Attributes:
        parent_child_id: the child that delegates to it; None if the orchestrator calls it.
        ancestors: from the orchestrator's call down to the parent child; empty if the orchestrator calls it.
    """

    parent: Parent
    step: Step
    permissions: Permissions
    execution: Execution
    outputs: Outputs
    budgets: Budgets
    sub_agent_id: Slot
    definition_id: str
    definition_digest: str
    definition_commit: str
    ownership: tuple[str, ...]
    parent_child_id: ChildId | None = None
    ancestors: tuple[Ancestor, ...] = ()

    def to_json(self) -> str:
        """Return the text that is stored in `sub_agents.context_json` and handed to the runner."""
        return msgspec.json.encode(self).decode()

    @property
    def attempt_timeout(self) -> timedelta:
        """Longest one attempt may take."""
        return timedelta(milliseconds=self.execution.attempt_timeout_ms)


def contract_from_json(text: str) -> Contract:
    """Read a stored contract. Raises `Undecodable` naming the field that is missing or wrong. Source: SX-10."""
    return from_json(text, Contract)


def bounded(contract: Contract, seconds: float) -> Contract:
    """Return `contract` with the time that is left until the child is stopped."""
    budgets = msgspec.structs.replace(contract.budgets, time_left_ms=max(0, int(seconds * 1000)))
    return msgspec.structs.replace(contract, budgets=budgets)


class TurnText(msgspec.Struct, frozen=True):
    """What the turn says to all its children."""

    task_prompt: str
    prior_context: str


def contract_for(
    call: ToolCall, tool: SurfaceTool, turn_id: TurnId, step_idx: int, text: TurnText, request: str
) -> Contract:
    """Build a child's contract from the card's defaults, the surface and the call.

    Args:
        call: as emitted.
        tool: what the call asks, as bound.
        turn_id: becomes `run_id`.
        step_idx: emission index over the turn.
        text: the same for all children of a dispatch.
        request: what the call's arguments ask for, in words.

    Source: SX-3, SX-5 .. SX-11, DESIGN section 5, TN-102.
    """
    definition, limits = tool.card.definition, tool.card.definition.limits
    return Contract(
        parent=Parent(
            run_id=turn_id,
            step_idx=step_idx,
            task_prompt=text.task_prompt,
            goal_summary=text.prior_context[:GOAL_SUMMARY_LIMIT],
        ),
        step=Step(title=call.tool_name, description=request, success_criteria=definition.success_criteria),
        permissions=Permissions(
            allowed_tools=definition.tools,
            can_spawn_children=limits.max_delegation_depth > 0,
            max_delegation_depth=limits.max_delegation_depth,
        ),
        execution=Execution(
            attempt_timeout_ms=_milliseconds(limits.attempt_timeout),
            max_retries=limits.max_retries,
            close_on_completion=limits.close_on_completion,
        ),
        outputs=DEFAULT_OUTPUTS,
        budgets=_budgets(limits),
        sub_agent_id=tool.slot,
        definition_id=definition.id,
        definition_digest=tool.card.digest,
        definition_commit=tool.card.commit,
        ownership=ownership_of(tool),
    )


def ownership_of(tool: SurfaceTool) -> tuple[str, ...]:
    """Return the boundaries a call holds: its own slot always, and what the card declares. Source: TN-17, TN-21."""
    return (f"slot:{tool.slot}", *tool.card.definition.ownership)


def _budgets(limits: Limits) -> Budgets:
    return Budgets(
        wall_clock_ms=_optional_milliseconds(limits.wall_clock),
        tool_calls=limits.tool_calls,
        tokens=limits.tokens,
        idle_timeout_ms=_optional_milliseconds(limits.idle_timeout),
    )


def _milliseconds(duration: timedelta) -> int:
    return max(1, round(duration.total_seconds() * 1000))


def _optional_milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else _milliseconds(duration)
