"""How children and turns end, as messages."""

from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.operations.turn.state.turn_ends import ChildSummary, TurnClosed
from sidecar.rpc.translate.enums import AXIS, CAP, OUTCOME, REASON
from sidecar.rpc.translate.fields import duration, timestamp
from sidecar.rpc.translate.frames import intents_message
from sidecar.rpc.translate.surfaces import candidate_message, cohort_message, start_state
from subagents.dispatch.v1 import dispatch_pb2, routing_pb2
from subagents.errors.v1 import error_reason_pb2


def ended_turn(closed: TurnClosed, *, attached: bool) -> dispatch_pb2.EndTurnResponse:
    """Return the answer to EndTurn."""
    return dispatch_pb2.EndTurnResponse(
        state=start_state(attached=attached),
        children=[child_message(child) for child in closed.children],
        gate_passed=closed.routing.gate_passed,
        routing_decision=routing_message(closed.routing),
    )


def child_message(child: ChildSummary) -> dispatch_pb2.ChildSummary:
    """Return the end state of one child."""
    return dispatch_pb2.ChildSummary(
        child_id=child.child_id,
        sub_agent_id=child.sub_agent_id,
        step_idx=child.step_idx,
        final_status=child.final_status,
        close_reason=child.close_reason,
    )


def routing_message(record: RoutingRecord) -> routing_pb2.RoutingDecision:
    """Return the routing decision of a turn."""
    return routing_pb2.RoutingDecision(
        turn_id=record.turn_id,
        episode_id=record.episode_id,
        orchestrator_id=record.orchestrator_id,
        candidates=[candidate_message(candidate) for candidate in record.candidates],
        calls=[_routed(call) for call in record.calls],
        intents=[intents_message(intents) for intents in record.intents],
        intent_count=record.intent_count,
        fan_out_cap=record.fan_out_cap,
        cap=CAP[record.cap],
        cohort=cohort_message(record.cohort),
        binding_digest=record.binding_digest,
        bound_at=timestamp(record.bound_at),
        ended_at=timestamp(record.ended_at),
        close_reason=record.close_reason,
        overhead=duration(record.overhead),
        principal_asserted_by=record.principal_asserted_by,
        gate_passed=record.gate_passed,
    )


def _routed(call: RoutedCall) -> routing_pb2.RoutedCall:
    reason = error_reason_pb2.ERROR_REASON_UNSPECIFIED if call.reason is None else REASON[call.reason]
    return routing_pb2.RoutedCall(
        call_id=call.call_id,
        sub_agent_id=call.sub_agent_id or "",
        child_id=call.child_id or "",
        emission_index=call.emission_index,
        outcome=OUTCOME[call.outcome],
        reason=reason,
        axis=AXIS[call.axis],
        started_at=None if call.started_at is None else timestamp(call.started_at),
        settled_at=timestamp(call.settled_at),
        attempts=call.attempts,
        status_events=call.status_events,
        dispatch_id=call.dispatch_id,
    )
