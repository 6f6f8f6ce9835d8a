"""Decides, for each call of a model response, whether it runs, and with which arguments.

Source: PC2-FR-7c, PC2-D-1, PC2-D-3, TN-17, TN-18.
"""

from collections.abc import Sequence

import msgspec

from sidecar.core.binding.surface import Surface, SurfaceTool
from sidecar.core.decoding import Undecodable, from_json
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cap import CapBehaviour, cap_behaviour, split_at_cap
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.identifiers import Slot
from sidecar.core.json_schemas import validator_of
from subagents_errors import CallFailure

ARGUMENTS_LIMIT = 64 * 1024
"""UTF-8 bytes of one call's arguments."""
REQUEST_LIMIT = 16 * 1024
"""Characters of the request that a contract holds."""


class PlannedCall(msgspec.Struct, frozen=True):
    """A call that may run.

    Attributes:
        place: index in the dispatch.
        step_idx: emission index over the turn.
        request: what is asked, in words.
        declared_intents: what the model declared in the arguments; 0 if nothing.
    """

    call: ToolCall
    tool: SurfaceTool
    place: int
    step_idx: int
    request: str
    declared_intents: int


class DispatchPlan(msgspec.Struct, frozen=True):
    """What is to become of each call.

    Attributes:
        run: calls to run, in emission order.
        settled: outcomes that stand already (dropped, refused), by place.
        called: slots of all well-formed calls, before the cap.
        declared: largest intent count that any call declared.
    """

    run: tuple[PlannedCall, ...]
    settled: dict[int, CallOutcome]
    called: tuple[Slot, ...]
    declared: int
    cap: CapBehaviour


def plan_dispatch(surface: Surface, calls: Sequence[ToolCall], first_step: int, places: int) -> DispatchPlan:
    """Plan one dispatch.

    A call that is refused never takes one of the places, since it never runs.

    Args:
        surface: as bound.
        calls: in emission order.
        first_step: emission index of the first call over the turn.
        places: the cap less what runs already in the turn; 0 or more.
    """
    fit: list[PlannedCall] = []
    settled: dict[int, CallOutcome] = {}
    for place, call in enumerate(calls):
        checked = _check(surface, call, place, first_step + place)
        if isinstance(checked, PlannedCall):
            fit.append(checked)
        else:
            settled[place] = checked
    run, dropped = split_at_cap(fit, places)
    for planned in dropped:
        settled[planned.place] = not_run(planned, Outcome.DROPPED, CallFailure.OVER_CAP)
    return DispatchPlan(
        run=tuple(run),
        settled=settled,
        called=tuple(planned.tool.slot for planned in fit),
        declared=max((planned.declared_intents for planned in fit), default=0),
        cap=cap_behaviour(len(fit), places),
    )


def not_run(planned: PlannedCall, outcome: Outcome, reason: CallFailure) -> CallOutcome:
    """Return the outcome of a planned call that came to nothing: there is no child and no answer."""
    return CallOutcome(
        call_id=planned.call.call_id,
        tool_name=planned.call.tool_name,
        sub_agent_id=planned.tool.slot,
        child_id=None,
        emission_index=planned.step_idx,
        outcome=outcome,
        reason=reason,
    )


def _check(surface: Surface, call: ToolCall, place: int, step_idx: int) -> PlannedCall | CallOutcome:
    tool = surface.tool_named(call.tool_name)
    if tool is None:
        return _refused(call, None, step_idx, CallFailure.UNKNOWN_TOOL)
    arguments = _arguments(call.arguments_json)
    if arguments is None or not validator_of(tool.arguments_schema_json).is_valid(arguments):
        return _refused(call, tool.slot, step_idx, CallFailure.ARGUMENTS_INVALID)
    request = arguments.get("request")
    declared = arguments.get("intent_count")
    return PlannedCall(
        call=call,
        tool=tool,
        place=place,
        step_idx=step_idx,
        request=(request if isinstance(request, str) else call.arguments_json)[:REQUEST_LIMIT],
        declared_intents=declared if isinstance(declared, int) and declared > 0 else 0,
    )


def _arguments(text: str) -> dict[str, object] | None:
    """Return the arguments as an object, or None if they are no JSON object of bounded size."""
    if len(text.encode(errors="replace")) > ARGUMENTS_LIMIT:
        return None
    try:
        decoded = from_json(text)
    except Undecodable:
        return None
    return decoded if isinstance(decoded, dict) else None


def _refused(call: ToolCall, slot: Slot | None, step_idx: int, reason: CallFailure) -> CallOutcome:
    return CallOutcome(
        call_id=call.call_id,
        tool_name=call.tool_name,
        sub_agent_id=slot,
        child_id=None,
        emission_index=step_idx,
        outcome=Outcome.REFUSED,
        reason=reason,
    )
