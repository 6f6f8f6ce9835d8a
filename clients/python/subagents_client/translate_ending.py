"""How turns and children end: messages of the wire to the values of the SDK."""

from typing import Final

from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2, routing_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents_client.ending import (
    ChildCloseReason,
    ChildSummary,
    FinalStatus,
    RoutedCall,
    RoutingDecision,
    TurnCloseReason,
    TurnEnd,
)
from subagents_client.translate import (
    axis,
    candidate,
    cap,
    cohort,
    intent_report,
    outcome_of,
    reason,
    start_state,
    table,
    timestamp,
)

FINAL_STATUSES: Final = table(FinalStatus, outcome_pb2.FinalStatus, "FINAL_STATUS")
CHILD_CLOSE_REASONS: Final = table(ChildCloseReason, outcome_pb2.ChildCloseReason, "CHILD_CLOSE_REASON")
TURN_CLOSE_REASONS: Final = table(TurnCloseReason, outcome_pb2.TurnCloseReason, "TURN_CLOSE_REASON")
"""Numbers of the wire to our members. A number newer than this version is in none of them."""


def child_summary(message: dispatch_pb2.ChildSummary) -> ChildSummary:
    """Return the end state of one child."""
    return ChildSummary(
        message.child_id,
        message.sub_agent_id,
        message.emission_index,
        FINAL_STATUSES.get(message.final_status, FinalStatus.UNSPECIFIED),
        CHILD_CLOSE_REASONS.get(message.close_reason, ChildCloseReason.UNSPECIFIED),
    )


def turn_end(message: dispatch_pb2.EndTurnResponse) -> TurnEnd:
    """Return how a turn ended."""
    return TurnEnd(
        start_state(message.state),
        [child_summary(one) for one in message.children],
        message.gate_passed,
        routing_decision(message.routing_decision),
    )


def turn_close_reason(number: int) -> TurnCloseReason:
    """Return why a turn ended."""
    return TURN_CLOSE_REASONS.get(number, TurnCloseReason.UNSPECIFIED)


def routing_decision(message: routing_pb2.RoutingDecision) -> RoutingDecision:
    """Return what was routed where."""
    return RoutingDecision(
        turn_id=message.turn_id,
        episode_id=message.episode_id,
        orchestrator_id=message.orchestrator_id,
        candidates=[candidate(one) for one in message.candidates],
        calls=[_routed_call(one) for one in message.calls],
        intents=[intent_report(one) for one in message.intents],
        intent_count=message.intent_count,
        fan_out_cap=message.fan_out_cap,
        cap=cap(message.cap),
        cohort=cohort(message.cohort),
        binding_digest=message.binding_digest,
        bound_at=timestamp(message.bound_at) if message.HasField("bound_at") else None,
        ended_at=timestamp(message.ended_at) if message.HasField("ended_at") else None,
        close_reason=turn_close_reason(message.close_reason),
        overhead=message.overhead.ToTimedelta(),
        principal_asserted_by=message.principal_asserted_by,
        gate_passed=message.gate_passed,
    )


def _routed_call(one: routing_pb2.RoutedCall) -> RoutedCall:
    return RoutedCall(
        call_id=one.call_id,
        sub_agent_id=one.sub_agent_id,
        child_id=one.child_id,
        emission_index=one.emission_index,
        outcome=outcome_of(one.outcome),
        reason="" if one.reason == error_reason_pb2.ERROR_REASON_UNSPECIFIED else reason(one.reason),
        axis=axis(one.axis),
        started_at=timestamp(one.started_at) if one.HasField("started_at") else None,
        settled_at=timestamp(one.settled_at) if one.HasField("settled_at") else None,
        attempts=one.attempts,
        status_events=one.status_events,
        dispatch_id=one.dispatch_id,
    )
