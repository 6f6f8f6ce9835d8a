"""Synthetic outcomes: the SDK makes them for calls that the sidecar did not answer.

Model providers reject a message history with an unanswered tool call. If the sidecar cannot be reached, the SDK
therefore makes one outcome per call, in emission order.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from subagents_client.outcomes import (
    SENTENCES,
    CallOutcome,
    CallStatus,
    CapBehaviour,
    DispatchResult,
    IntentReport,
    Outcome,
    ToolCall,
)
from subagents_client.surface import Surface
from subagents_errors import Axis, CallFailure, SubagentsError

UNREACHABLE: Final = CallStatus(CallFailure.SIDECAR_UNREACHABLE, Axis.EXECUTION, SENTENCES[Outcome.FAILED])
NONE_TOLD: Final[Mapping[str, CallOutcome]] = MappingProxyType({})
OVER_CAP: Final = CallStatus(CallFailure.OVER_CAP, Axis.NONE, SENTENCES[Outcome.DROPPED])


def synthesised_result(
    dispatch_id: str,
    calls: Sequence[ToolCall],
    surface: Surface,
    cause: SubagentsError | None,
    first_index: int = 0,
    told: Mapping[str, CallOutcome] = NONE_TOLD,
) -> DispatchResult:
    """Return a result with a synthetic outcome for each call without a known outcome.

    Args:
        dispatch_id: id of the dispatch.
        calls: the calls, in emission order.
        surface: has the fan-out cap. Calls within the cap count as failed, calls beyond it as dropped.
        cause: why the SDK could not get the outcomes.
        first_index: position of the first call over all dispatches of the turn, from 0.
        told: known outcomes, by call id, which the result contains unchanged.

    Source: PC2-FR-7, PC2-FR-8, TN-18.
    """
    outcomes = [
        told.get(call.call_id) or _outcome(call, surface, first_index + place, dropped=place >= surface.fan_out_cap)
        for place, call in enumerate(calls)
    ]
    emitted = len({one.sub_agent_id for one in outcomes if one.sub_agent_id})
    return DispatchResult(
        dispatch_id=dispatch_id,
        outcomes=outcomes,
        intents=IntentReport(emitted=emitted),
        cap=_cap(len(calls), surface.fan_out_cap),
        synthesised=True,
        cause=cause,
    )


def failed_call(call: ToolCall) -> CallOutcome:
    """Return a failed outcome without a status, for a call that the sidecar did not answer."""
    return CallOutcome(call_id=call.call_id, tool_name=call.tool_name, sub_agent_id="", outcome=Outcome.FAILED)


def _outcome(call: ToolCall, surface: Surface, index: int, *, dropped: bool) -> CallOutcome:
    tool = surface.tool(call.tool_name)
    return CallOutcome(
        call_id=call.call_id,
        tool_name=call.tool_name,
        sub_agent_id=tool.sub_agent_id if tool else "",
        emission_index=index,
        outcome=Outcome.DROPPED if dropped else Outcome.FAILED,
        status=OVER_CAP if dropped else UNREACHABLE,
    )


def _cap(emitted: int, cap: int) -> CapBehaviour:
    if emitted > cap:
        return CapBehaviour.OVER
    return CapBehaviour.AT if emitted == cap else CapBehaviour.WITHIN
