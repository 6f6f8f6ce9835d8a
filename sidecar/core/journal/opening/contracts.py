"""The contract of a child: reduced for a fact, and restored from the fact.

A contract repeats values of the request, of the claims and of its child's position: turn, slot, step and ancestors. A
fact stores only the differences: a text that equals the request's is None, and so is a value that follows from the
position. Below, arguments named `place` are a `ContractPosition`, except in `called` and `said_in`.
"""

import msgspec

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.executing.contract import (
    DEFAULT_OUTPUTS,
    GOAL_SUMMARY_LIMIT,
    Ancestor,
    Budgets,
    Contract,
    Execution,
    Outputs,
    Parent,
    Permissions,
    WorkflowStep,
    contract_template,
)
from sidecar.core.executing.delegation import path_of
from sidecar.core.identifiers import ChildId, Slot, ToolId, TurnId
from sidecar.core.journal.opening.part import Digests, Part, packed, unpacked
from sidecar.core.journal.opening.requests import Request


class BareAncestor(Part, frozen=True):
    """An `Ancestor`. `definition_id` None: the id equals the slot."""

    child_id: ChildId
    slot: Slot
    definition_id: str | None


class BareContract(Part, frozen=True):
    """`Contract` without its texts and without the values of `ContractPosition`.

    Attributes:
        limits: of wall clock (ms), tool calls, tokens and silence (ms); None: none of these limits is set.
        may_spawn: None: true exactly if `max_delegation_depth` is above 0.
        outputs: format and path pattern of the report; None: the defaults.
        definition_id: None: equal to the slot.
        digest: of the definition; None: that of the definition that the turn bound for the slot.
        commit: None: equal to the digest.
        ownership: None: only the slot.
        ancestors: None: those of the `ContractPosition`.
    """

    attempt_timeout_ms: int
    time_left_ms: int | None
    max_retries: int = 0
    close_on_completion: bool = True
    limits: tuple[int | None, int | None, int | None, int | None] | None = None
    allowed_tools: tuple[ToolId, ...] = ()
    max_delegation_depth: int = 0
    may_spawn: bool | None = None
    success_criteria: tuple[str, ...] = ()
    outputs: tuple[str, str] | None = None
    definition_id: str | None = None
    digest: Digests | None = None
    commit: str | None = None
    ownership: tuple[str, ...] | None = None
    ancestors: tuple[BareAncestor, ...] | None = None


class ContractTexts(Part, frozen=True):
    """The texts of one contract. None: the text equals that in `ContractPosition.said`."""

    description: str | None = None
    task_prompt: str | None = None
    goal_summary: str | None = None
    title: str | None = None


class ContractPosition(msgspec.Struct, frozen=True):
    """The values of a contract that follow from its child and its request.

    Attributes:
        said: the texts of the request, or of the delegating child's contract, that the contract usually repeats.
        parent: the child that delegates to this one; None for a call of the orchestrator.
        digest: of the definition that the claims of the dispatch bind for the slot; None if they bind none.
        ancestors: the ancestors of the parent, then the parent itself.
    """

    turn_id: TurnId
    slot: Slot
    step: int
    said: ContractTexts
    parent: ChildId | None = None
    digest: str | None = None
    ancestors: tuple[Ancestor, ...] = ()


class BareTemplate(msgspec.Struct, frozen=True):
    """The common part of the contracts of all calls of one tool, without the values of `ContractPosition`."""

    common: BareContract

    def filled(self, time_left_ms: int | None, digest: Digests | None) -> BareContract:
        """Return the reduced contract of one call. `digest` None: the turn bound this definition."""
        return msgspec.structs.replace(self.common, time_left_ms=time_left_ms, digest=digest)


def bare_template(tool: SurfaceTool) -> BareTemplate:
    """Return `contract_template` in the form of facts; `SurfaceTool.made_once` caches it."""
    # Once per tool and not per call: reducing and verifying a contract takes longer than filling in two values.
    common = contract_template(tool).common
    # The turn and the step are placeholders, because the result has neither. Title and digest are those of the tool
    # itself, so that both count as known and are left out.
    place = ContractPosition(TurnId(""), tool.slot, 0, ContractTexts(title=tool.name), digest=common.definition_digest)
    bare, _ = stripped(common, place)
    return BareTemplate(bare)


def differing(text: str, known: str) -> str | None:
    """Return the text, or None if it equals the known one."""
    return None if text == known else text


def called(claims: SurfaceClaims, slot: Slot, step: int, request: Request, place: int) -> ContractPosition:
    """Return what the contract of a call repeats; `place` is that of the call in the request."""
    return ContractPosition(claims.turn_id, slot, step, said_in(request, place), digest=dict(claims.tools).get(slot))


def below(claims: SurfaceClaims, slot: Slot, step: int, parent: ChildId, contract: Contract) -> ContractPosition:
    """Return what the contract of a child that `parent` delegates to repeats; `contract` is that of the parent."""
    # None if the turn bound no definition of this slot; the digest is then stored.
    digest = dict(claims.tools).get(slot)
    return ContractPosition(claims.turn_id, slot, step, said_above(contract), parent, digest, path_of(parent, contract))


def said_in(request: Request, place: int) -> ContractTexts:
    """Return the texts of a request that the contract of one of its calls repeats."""
    call = request.calls[place]
    return ContractTexts(
        description=asked_in(call),
        task_prompt=request.task_prompt,
        # Cut like the contract itself. Otherwise a long context would differ, and be stored a second time.
        goal_summary=request.prior_context[:GOAL_SUMMARY_LIMIT],
        title=call.tool_name,
    )


def said_above(contract: Contract) -> ContractTexts:
    """Return the texts of a delegating child's contract that the contract below it repeats."""
    # A delegated child has no call, so its description and title are its own and are always stored.
    return ContractTexts(task_prompt=contract.step.description, goal_summary=contract.parent.goal_summary)


def stripped(contract: Contract, place: ContractPosition) -> tuple[BareContract, ContractTexts]:
    """Return a contract without the values of `place`, and its own texts. Raises `ValueError` if they contradict."""
    known, parent, step, budgets = place.said, contract.parent, contract.step, contract.budgets
    execution, permissions, outputs = contract.execution, contract.permissions, contract.outputs
    # One tuple for four limits: most definitions have none of them, so most contracts save four fields.
    limits = (budgets.wall_clock_ms, budgets.tool_calls, budgets.tokens, budgets.idle_timeout_ms)
    depth, may_spawn = permissions.max_delegation_depth, permissions.can_spawn_children
    digest, slot = contract.definition_digest, contract.sub_agent_id
    texts = ContractTexts(
        description=None if step.description == known.description else step.description,
        task_prompt=None if parent.task_prompt == known.task_prompt else parent.task_prompt,
        goal_summary=None if parent.goal_summary == known.goal_summary else parent.goal_summary,
        title=None if step.title == known.title else step.title,
    )
    bare = BareContract(
        attempt_timeout_ms=execution.attempt_timeout_ms,
        time_left_ms=budgets.time_left_ms,
        max_retries=execution.max_retries,
        close_on_completion=execution.close_on_completion,
        limits=None if limits == (None, None, None, None) else limits,
        allowed_tools=permissions.allowed_tools,
        max_delegation_depth=depth,
        may_spawn=None if may_spawn == (depth > 0) else may_spawn,
        success_criteria=step.success_criteria,
        outputs=None if outputs == DEFAULT_OUTPUTS else (outputs.report_format, outputs.report_path_pattern),
        definition_id=None if contract.definition_id == slot else contract.definition_id,
        digest=None if digest == place.digest else packed((digest,)),
        commit=None if contract.definition_commit == digest else contract.definition_commit,
        ownership=None if contract.ownership == (f"slot:{slot}",) else contract.ownership,
        ancestors=None if contract.ancestors == place.ancestors else _bare(contract.ancestors),
    )
    # Verified by restoring it: a contract that this form cannot express must not be written, because a recorded fact is
    # final.
    if restored(bare, texts, place) != contract:
        raise ValueError("the contract contradicts the place of its child")
    return bare, texts


def restored(bare: BareContract, texts: ContractTexts, place: ContractPosition) -> Contract:
    """Return the contract that `stripped` reduced. Raises `ValueError` if it needs an unknown digest."""
    known, depth = place.said, bare.max_delegation_depth
    # A stored digest wins: a rollout may have served another content than the claims bind.
    (digest,) = (place.digest,) if bare.digest is None else unpacked(bare.digest)
    if digest is None:
        raise ValueError(f"no definition is bound for {place.slot}")
    wall_clock_ms, tool_calls, tokens, idle_timeout_ms = bare.limits or (None, None, None, None)
    outputs = DEFAULT_OUTPUTS
    if bare.outputs is not None:
        outputs = Outputs(report_format=bare.outputs[0], report_path_pattern=bare.outputs[1])
    # The empty texts below are for the type checker: `stripped` stores every text that `place` does not have.
    return Contract(
        parent=Parent(
            run_id=place.turn_id,
            step_idx=place.step,
            task_prompt=(known.task_prompt or "") if texts.task_prompt is None else texts.task_prompt,
            goal_summary=(known.goal_summary or "") if texts.goal_summary is None else texts.goal_summary,
        ),
        step=WorkflowStep(
            title=(known.title or "") if texts.title is None else texts.title,
            description=(known.description or "") if texts.description is None else texts.description,
            success_criteria=bare.success_criteria,
        ),
        permissions=Permissions(
            allowed_tools=bare.allowed_tools,
            can_spawn_children=depth > 0 if bare.may_spawn is None else bare.may_spawn,
            max_delegation_depth=depth,
        ),
        execution=Execution(
            attempt_timeout_ms=bare.attempt_timeout_ms,
            max_retries=bare.max_retries,
            close_on_completion=bare.close_on_completion,
        ),
        outputs=outputs,
        budgets=Budgets(
            wall_clock_ms=wall_clock_ms,
            tool_calls=tool_calls,
            tokens=tokens,
            idle_timeout_ms=idle_timeout_ms,
            time_left_ms=bare.time_left_ms,
        ),
        sub_agent_id=place.slot,
        definition_id=place.slot if bare.definition_id is None else bare.definition_id,
        definition_digest=digest,
        definition_commit=digest if bare.commit is None else bare.commit,
        ownership=(f"slot:{place.slot}",) if bare.ownership is None else bare.ownership,
        parent_child_id=place.parent,
        ancestors=place.ancestors if bare.ancestors is None else _whole(bare.ancestors),
    )


def _bare(ancestors: tuple[Ancestor, ...]) -> tuple[BareAncestor, ...]:
    return tuple(
        BareAncestor(
            each.child_id, each.sub_agent_id, None if each.definition_id == each.sub_agent_id else each.definition_id
        )
        for each in ancestors
    )


def _whole(ancestors: tuple[BareAncestor, ...]) -> tuple[Ancestor, ...]:
    return tuple(
        Ancestor(
            child_id=each.child_id,
            sub_agent_id=each.slot,
            definition_id=each.slot if each.definition_id is None else each.definition_id,
        )
        for each in ancestors
    )


def asked_in(call: ToolCall) -> str:
    """Return the argument `request` of a call, if it is a text; else all arguments, as their JSON text."""
    try:
        request = from_json(call.arguments_json, dict)
    # The arguments were accepted as JSON once; another version may have been less strict.
    except DecodeError:
        return call.arguments_json
    said = request.get("request")
    return said if isinstance(said, str) else call.arguments_json
