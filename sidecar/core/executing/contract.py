"""The contract of a child: what it may do and for how long.

A dispatch creates one contract for each call, records it before the sub-agent starts, and sends it to the runner. It is
JSON with the field names of requirement SX §2 and some further fields.
"""

from datetime import timedelta
from typing import Final

import msgspec

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import Limits
from sidecar.core.identifiers import ChildId, Slot, ToolId, TurnId

GOAL_SUMMARY_LIMIT = 16 * 1024
"""Characters. The summary is limited so that a contract does not grow with the conversation (TN-14)."""


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The turn (`run_id`) and the call (`step_idx`) that the child works for, and the texts of the turn. Source: SX-5.

    Attributes:
        goal_summary: the orchestrator's summary of the conversation.
    """

    run_id: str
    step_idx: int
    task_prompt: str
    goal_summary: str


class WorkflowStep(msgspec.Struct, frozen=True, kw_only=True):
    """The task of the child. Source: SX-6."""

    title: str
    description: str
    success_criteria: tuple[str, ...]


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What the child may call. `allowed_tools` are exact ids; empty means none. Source: SX-7."""

    allowed_tools: tuple[ToolId, ...]
    can_spawn_children: bool
    max_delegation_depth: int


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the attempts, and whether an answer counts as accepted without a verdict. Source: SX-8."""

    attempt_timeout_ms: int
    max_retries: int
    close_on_completion: bool


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the child's report, and its path below the operator's directory. Source: SX-9, SX-11."""

    report_format: str
    report_path_pattern: str


_encoded: Final = msgspec.json.Encoder().encode  # kept: making an encoder costs more than a small encoding
DEFAULT_OUTPUTS: Final = Outputs(report_format="markdown", report_path_pattern=".orchestrix/step-<idx>-result.md")
"""The same for every contract. `report_paths` replaces `<idx>`."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """The limits over all attempts; None: no limit.

    Attributes:
        time_left_ms: from the creation of the contract until the child is stopped, whatever the other fields say. A
            delegated child ends with the attempt of its parent.
        idle_timeout_ms: longest silence of the runner. It only detects dead runners and grants nothing.
    """

    wall_clock_ms: int | None
    tool_calls: int | None
    tokens: int | None
    idle_timeout_ms: int | None
    time_left_ms: int | None = None


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting caller further up, which may not be called again below itself: it would wait for itself."""

    child_id: ChildId
    sub_agent_id: Slot
    definition_id: str


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """The delegation contract of one child. Immutable once the child exists (SX-12).

    Attributes:
        parent_child_id: the delegating child; None if the orchestrator calls the child.
        ancestors: from the orchestrator's call down to the parent child; empty if the orchestrator calls the child.
    """

    # The order of the fields is the order of the JSON, which `ContractTemplate` cuts: `parent` comes first.

    parent: Parent
    step: WorkflowStep
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
        """Return the text that is stored in `sub_agents.context_json` and sent to the runner."""
        return msgspec.json.encode(self).decode()

    @property
    def attempt_timeout(self) -> timedelta:
        """The longest time for one attempt."""
        return timedelta(milliseconds=self.execution.attempt_timeout_ms)


def contract_from_json(text: str) -> Contract:
    """Read a stored contract. Raises `DecodeError`, which names the missing or wrong field. Source: SX-10."""
    return from_json(text, Contract)


class TurnText(msgspec.Struct, frozen=True):
    """The texts of the turn that all its children receive."""

    task_prompt: str
    prior_context: str


class StoredContract(msgspec.Struct, frozen=True):
    """A contract with the result of its `to_json`."""

    contract: Contract
    json: str


class ContractTemplate(msgspec.Struct, frozen=True):
    """The common part of the contracts of all calls of one tool. It contains nothing of a single call.

    Serialising a contract is the largest cost of opening a child, so the JSON around the variable parts is kept as
    text.

    Attributes:
        common: a contract in which the parts of a single call are empty.
        texts: the JSON of `common` around these parts: parent, description, remaining time.
    """

    common: Contract
    texts: tuple[str, str, str]

    def filled(self, turn_id: TurnId, step_idx: int, text: TurnText, request: str, seconds: float) -> StoredContract:
        """Return the contract of one call.

        Args:
            turn_id: becomes `run_id`.
            step_idx: emission index over the turn.
            text: the same for all children of a dispatch, unless the call has its own.
            request: the request of the call's arguments, in words.
            seconds: until the child is stopped.
        """
        # Rounded down: a sub-agent must not count on time after the sidecar has stopped it.
        common, time_left_ms = self.common, max(0, int(seconds * 1000))
        step, budgets = common.step, common.budgets
        contract = Contract(
            parent=Parent(
                run_id=turn_id,
                step_idx=step_idx,
                task_prompt=text.task_prompt,
                # The runner receives the whole text as part of its request; only the stored contract has the short
                # form.
                goal_summary=text.prior_context[:GOAL_SUMMARY_LIMIT],
            ),
            step=WorkflowStep(title=step.title, description=request, success_criteria=step.success_criteria),
            # Shared with all contracts of the tool: structs are frozen, so no call can change them.
            permissions=common.permissions,
            execution=common.execution,
            outputs=common.outputs,
            budgets=Budgets(
                wall_clock_ms=budgets.wall_clock_ms,
                tool_calls=budgets.tool_calls,
                tokens=budgets.tokens,
                idle_timeout_ms=budgets.idle_timeout_ms,
                time_left_ms=time_left_ms,
            ),
            sub_agent_id=common.sub_agent_id,
            definition_id=common.definition_id,
            definition_digest=common.definition_digest,
            definition_commit=common.definition_commit,
            ownership=common.ownership,
        )
        # Only the variable parts are serialised; the rest is text of the template. The result must equal `to_json`,
        # because a sidecar that takes the dispatch over reads the stored text.
        head, middle, end = self.texts
        parent, description = _encoded(contract.parent).decode(), _encoded(request).decode()
        return StoredContract(contract, f'{{"parent":{parent}{head}{description}{middle}{time_left_ms}{end}')


def contract_template(tool: SurfaceTool) -> ContractTemplate:
    """Return the part of a tool's contracts that card and surface determine; `SurfaceTool.made_once` caches it.

    Source: SX-3, SX-5 .. SX-11, DESIGN section 5, TN-102.
    """
    definition, limits = tool.card.definition, tool.card.definition.limits
    common = Contract(
        parent=Parent(run_id="", step_idx=0, task_prompt="", goal_summary=""),
        step=WorkflowStep(title=tool.name, description="", success_criteria=definition.success_criteria),
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
        ownership=tool.ownership,
    )
    return ContractTemplate(common, _around(common))


def _around(common: Contract) -> tuple[str, str, str]:
    """Return the JSON after the parent, after the description, and after the remaining time.

    A quote within a text is escaped, so a quoted name followed by a colon can only be a member; each occurs once.
    """
    # Cut out of the real encoding: text that is put together by hand could differ from what a decoder expects.
    after_parent = common.to_json().removeprefix(f'{{"parent":{_encoded(common.parent).decode()}')
    head, description, rest = after_parent.partition('"description":')
    middle, time_left, end = rest.removeprefix('""').partition('"time_left_ms":')
    # In the template description and time are empty (`""`, `null`); they are cut out, because `filled` puts the real
    # ones there.
    return head + description, middle + time_left, end.removeprefix("null")


def _budgets(limits: Limits) -> Budgets:
    return Budgets(
        wall_clock_ms=_optional_milliseconds(limits.wall_clock),
        tool_calls=limits.tool_calls,
        tokens=limits.tokens,
        idle_timeout_ms=_optional_milliseconds(limits.idle_timeout),
    )


def _milliseconds(duration: timedelta) -> int:
    # At least 1: a positive limit under a millisecond must not become 0, which would stop the child at once.
    return max(1, round(duration.total_seconds() * 1000))


def _optional_milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else _milliseconds(duration)
