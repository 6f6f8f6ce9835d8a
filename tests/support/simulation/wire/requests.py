"""Requests of the operations as messages: what a client sends."""

from typing import Any

from sidecar.operations.requests import OnDisconnect, TurnSource, Verdict
from sidecar.rpc.translate.enums import ON_DISCONNECTS, SOURCES, VERDICTS
from subagents.dispatch.v1 import dispatch_pb2 as pb


def number_of(values: Any, wanted: OnDisconnect | TurnSource | Verdict) -> Any:
    """Return the number of a value."""
    return next(number for number, value in values.items() if value is wanted)


def bind_turn(request: Any) -> pb.BindTurnRequest:
    """Return the message that binds a turn."""
    return pb.BindTurnRequest(
        turn_id=request.turn_id,
        episode_id=request.episode_id,
        principal=request.principal,
        source=number_of(SOURCES, request.source),
        locale=request.locale or "",
    )


def dispatch(request: Any) -> pb.DispatchRequest:
    """Return the message that begins a dispatch."""
    message = pb.DispatchRequest(
        surface_token=request.surface_token,
        binding_digest=request.binding_digest,
        dispatch_id=request.dispatch_id,
        declared_intent_count=request.declared_intent_count,
        prior_context=request.prior_context,
        on_disconnect=number_of(ON_DISCONNECTS, request.on_disconnect),
    )
    for call in request.calls:
        message.calls.add(call_id=call.call_id, tool_name=call.tool_name, arguments_json=call.arguments_json)
    if request.continue_for is not None:
        message.continue_for.FromTimedelta(request.continue_for)
    join = request.join
    if join.min_success is not None:
        message.join.min_success = join.min_success
    if join.max_parallel is not None:
        message.join.max_parallel = join.max_parallel
    if join.timeout is not None:
        message.join.timeout.FromTimedelta(join.timeout)
    return message


def resume(request: Any) -> pb.ResumeDispatchRequest:
    """Return the message that listens again."""
    return pb.ResumeDispatchRequest(
        surface_token=request.surface_token, dispatch_id=request.dispatch_id, after_sequence=request.after_sequence
    )


def cancel(request: Any) -> pb.CancelCallRequest:
    """Return the message that cancels a call."""
    return pb.CancelCallRequest(
        surface_token=request.surface_token, dispatch_id=request.dispatch_id, call_id=request.call_id
    )


def close_child(request: Any) -> pb.CloseChildRequest:
    """Return the message with the verdict on a child."""
    verdict = request.integration
    return pb.CloseChildRequest(
        surface_token=request.surface_token,
        child_id=verdict.child_id,
        verdict=number_of(VERDICTS, verdict.verdict),
        reason=verdict.reason,
    )


def end_turn(request: Any) -> pb.EndTurnRequest:
    """Return the message that ends a turn."""
    message = pb.EndTurnRequest(
        surface_token=request.surface_token,
        narration=request.narration,
        declared_intent_count=request.declared_intent_count,
        user_message=request.user_message,
    )
    for each in request.integrations:
        message.integrations.add(child_id=each.child_id, verdict=number_of(VERDICTS, each.verdict), reason=each.reason)
    return message
