"""Translates the ends of children and turns to messages."""

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.operations.turn.state.turn_ends import ChildSummary, TurnClosed
from sidecar.rpc.translate.enums import (
    AXIS,
    CAP,
    CHILD_CLOSE_REASON,
    FINAL_STATUS,
    OUTCOME,
    REASON,
    TURN_CLOSE_REASON,
)
from sidecar.rpc.translate.fields import fill_duration, fill_timestamp
from sidecar.rpc.translate.frames import fill_intents, fill_usage
from sidecar.rpc.translate.surfaces import MOST_SURFACES, candidate_message, cohort_message, start_state
from subagents.dispatch.v1 import dispatch_pb2, routing_pb2


class ClosedTurns:
    """Builds responses to EndTurn.

    The part of a routing decision that all turns of a cohort (users with the same surface) share is built once.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[tuple[Candidate, ...], Cohort, bytes]] = {}

    def __call__(self, closed: TurnClosed, *, attached: bool) -> dispatch_pb2.EndTurnResponse:
        """Return the answer to EndTurn."""
        routing = closed.routing
        answer = dispatch_pb2.EndTurnResponse(
            state=start_state(attached=attached),
            children=[child_message(child) for child in closed.children],
            gate_passed=routing.gate_passed,
        )
        answer.routing_decision.MergeFromString(self._of_cohort(routing))
        _fill_own(answer.routing_decision, routing)
        return answer

    def _of_cohort(self, record: RoutingRecord) -> bytes:
        """Return the shared part, cached by identity of the candidates: comparing them would cost more.

        The cache keeps the candidates, so that their identity is not given to another object.
        """
        cached = self._parts.get(id(record.candidates))
        # Both parts of the cached message must come from these very objects.
        if cached is None or cached[1] is not record.cohort:
            if len(self._parts) >= MOST_SURFACES:
                self._parts = {}
            shared = routing_pb2.RoutingDecision()
            _fill_shared(shared, record)
            cached = self._parts[id(record.candidates)] = (record.candidates, record.cohort, shared.SerializeToString())
        return cached[2]


def child_message(child: ChildSummary) -> dispatch_pb2.ChildSummary:
    """Return the end state of one child."""
    return dispatch_pb2.ChildSummary(
        child_id=child.child_id,
        sub_agent_id=child.sub_agent_id,
        emission_index=child.step_idx,
        final_status=FINAL_STATUS[child.final_status],
        close_reason=CHILD_CLOSE_REASON[child.close_reason],
    )


def routing_message(record: RoutingRecord) -> routing_pb2.RoutingDecision:
    """Return the routing decision of a turn."""
    message = routing_pb2.RoutingDecision()
    _fill_shared(message, record)
    _fill_own(message, record)
    return message


def _fill_shared(message: routing_pb2.RoutingDecision, record: RoutingRecord) -> None:
    """Fill in the part that the turns of a cohort share."""
    message.candidates.extend([candidate_message(candidate) for candidate in record.candidates])
    message.cohort.CopyFrom(cohort_message(record.cohort))


def _fill_own(message: routing_pb2.RoutingDecision, record: RoutingRecord) -> None:
    """Fill in the part that belongs to this turn alone."""
    message.turn_id, message.episode_id = record.turn_id, record.episode_id
    message.orchestrator_id, message.binding_digest = record.orchestrator_id, record.binding_digest
    called = set()
    for call in record.calls:
        called.add(call.sub_agent_id)
        routed = message.calls.add()
        _fill_call(routed, call)
        # Only calls that used tokens have an arm, because costs are compared between arms.
        if call.usage is not None:
            routed.rollout_arm = record.arm_of(call.sub_agent_id)
    for intents in record.intents:
        fill_intents(message.intents.add(), intents)
    # Calls of unknown tools have no sub-agent, and count as no intent.
    message.intent_count = len(called - {None})
    message.fan_out_cap, message.cap = record.fan_out_cap, CAP[record.cap]
    fill_timestamp(message.bound_at, record.bound_at)
    fill_timestamp(message.ended_at, record.ended_at)
    fill_duration(message.overhead, record.overhead)
    message.close_reason, message.gate_passed = TURN_CLOSE_REASON[record.close_reason], record.gate_passed
    message.principal_asserted_by = record.principal_asserted_by


def _fill_call(message: routing_pb2.RoutedCall, call: RoutedCall) -> None:
    message.call_id, message.dispatch_id = call.call_id, call.dispatch_id
    message.sub_agent_id, message.child_id = call.sub_agent_id or "", call.child_id or ""
    message.emission_index, message.outcome, message.axis = call.emission_index, OUTCOME[call.outcome], AXIS[call.axis]
    if call.reason is not None:
        message.reason = REASON[call.reason]
    if call.started_at is not None:
        fill_timestamp(message.started_at, call.started_at)
    fill_timestamp(message.settled_at, call.settled_at)
    message.attempts, message.status_events = call.attempts, call.status_events
    if call.usage is not None:
        fill_usage(message.usage, call.usage)
