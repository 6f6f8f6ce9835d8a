"""Decides for each call of a model response whether it runs, and with which arguments.

`dispatch_calls` makes the plan when a model response arrives, before anything is recorded. A refused call gets its
outcome here and never has a child. Pure: a replay and a takeover make the same plan from the recorded request.

Source: PC2-FR-7c, PC2-D-1, PC2-D-3, TN-17, TN-18.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from sidecar.core.binding.surface import Surface, SurfaceTool
from sidecar.core.call_arguments import read_arguments
from sidecar.core.definitions.cards.ask_arguments import INTENT_COUNT, PRIOR_CONTEXT
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cap import CapBehaviour, cap_behaviour, split_at_cap
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.identifiers import Slot
from subagents_errors import CallFailure

REQUEST_LIMIT = 16 * 1024
"""The most characters of a request in a contract."""


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that may run.

    Attributes:
        place: index in the dispatch.
        step_idx: emission index over the turn.
        request: the request in words.
        arguments_json: the arguments for the sub-agent: those that its card declares.
        declared_intents: the number that the model declared in the arguments; 0 if none.
        prior_context: the summary in the arguments; empty if none.
    """

    call: ToolCall
    tool: SurfaceTool
    place: int
    step_idx: int
    request: str
    arguments_json: str
    declared_intents: int
    prior_context: str


class DispatchPlan(msgspec.Struct, frozen=True):
    """The plan for each call.

    Attributes:
        run: calls to run, in emission order.
        settled: outcomes that the plan itself decides (dropped, refused), by place.
        called: slots of all well-formed calls, before the cap.
        briefed: slots of the calls with a `prior_context` of their own.
        declared: largest intent count that any call declared.
        first_step, places: input of the plan: emission index of the first call, free places under the cap.
    """

    run: tuple[PlannedCall, ...]
    settled: dict[int, CallOutcome]
    called: tuple[Slot, ...]
    briefed: tuple[Slot, ...]
    declared: int
    cap: CapBehaviour
    first_step: int
    places: int


def plan_dispatch(surface: Surface, calls: Sequence[ToolCall], first_step: int, places: int) -> DispatchPlan:
    """Plan one dispatch.

    A refused call does not take one of the places, because it never runs.

    Args:
        surface: the bound surface.
        calls: in emission order.
        first_step: emission index of the first call over the turn.
        places: the cap minus the calls that already run in the turn; 0 or more.
    """
    fit: list[PlannedCall] = []
    settled: dict[int, CallOutcome] = {}
    called, briefed, declared = [], [], 0
    for place, call in enumerate(calls):
        # Refused calls count as well: the index is the place among all calls that the model emitted.
        checked = _check(surface, call, place, first_step + place)
        if not isinstance(checked, PlannedCall):
            # The outcomes are stored by place because calls that run fill the places between them later.
            settled[place] = checked
            continue
        fit.append(checked)
        # Also those that the cap drops below: the routing decision judges what the model chose.
        called.append(checked.tool.slot)
        if checked.prior_context.strip():
            briefed.append(checked.tool.slot)
        declared = max(declared, checked.declared_intents)
    # After the checks: a refused call must not push a well-formed one over the cap.
    run, dropped = split_at_cap(fit, places)
    for planned in dropped:
        hint = f"At most {surface.fan_out_cap} run at a time."
        settled[planned.place] = outcomes_without_run(planned, Outcome.DROPPED, CallFailure.OVER_CAP, hint)
    return DispatchPlan(
        run=tuple(run),
        settled=settled,
        called=tuple(called),
        briefed=tuple(briefed),
        declared=declared,
        cap=cap_behaviour(len(fit), places),
        first_step=first_step,
        places=places,
    )


def outcomes_without_run(planned: PlannedCall, outcome: Outcome, reason: CallFailure, hint: str = "") -> CallOutcome:
    """Return the outcome of a planned call that was not run: without child and answer."""
    return CallOutcome(
        call_id=planned.call.call_id,
        tool_name=planned.call.tool_name,
        sub_agent_id=planned.tool.slot,
        child_id=None,
        emission_index=planned.step_idx,
        outcome=outcome,
        reason=reason,
        hint=hint,
    )


def _check(surface: Surface, call: ToolCall, place: int, step_idx: int) -> PlannedCall | CallOutcome:
    tool = surface.by_name.get(call.tool_name)
    if tool is None:
        # The hint reaches the model, which invented the name: with the real names it can correct itself in its next
        # response.
        known = ", ".join(each.name for each in surface.tools)
        hint = f"There are: {known}." if known else "There are none."
        return _refused(call, None, step_idx, CallFailure.UNKNOWN_TOOL, hint)
    # By the schema of this very tool: validators are cached by the text of their schema.
    arguments = read_arguments(call.arguments_json, tool.arguments_schema_json)
    if isinstance(arguments, str):
        return _refused(call, tool.slot, step_idx, CallFailure.ARGUMENTS_INVALID, f"Wrong: {arguments}.")
    request, declared = arguments.get("request"), arguments.get(INTENT_COUNT)
    prior_context = arguments.get(PRIOR_CONTEXT)
    # The text of the model is passed on unchanged, unless some arguments are meant for the sidecar only.
    passed = call.arguments_json if arguments.keys().isdisjoint(tool.held_back) else _without(arguments, tool.held_back)
    return PlannedCall(
        call=call,
        tool=tool,
        place=place,
        step_idx=step_idx,
        # Cut and not refused: the sub-agent also gets the whole arguments.
        request=(request if isinstance(request, str) else passed)[:REQUEST_LIMIT],
        # Unchanged arguments stay the same object: `make_child` recognises by this that it need not parse them again.
        arguments_json=passed,
        # `type` and not `isinstance`: a boolean is an `int` in Python, and a model may well send one.
        declared_intents=max(0, declared) if type(declared) is int else 0,
        prior_context=prior_context if isinstance(prior_context, str) else "",
    )


def _without(arguments: dict[str, Any], names: tuple[str, ...]) -> str:
    return msgspec.json.encode({name: value for name, value in arguments.items() if name not in names}).decode()


def _refused(call: ToolCall, slot: Slot | None, step_idx: int, reason: CallFailure, hint: str) -> CallOutcome:
    return CallOutcome(
        call_id=call.call_id,
        tool_name=call.tool_name,
        sub_agent_id=slot,
        child_id=None,
        emission_index=step_idx,
        outcome=Outcome.REFUSED,
        reason=reason,
        hint=hint,
    )
