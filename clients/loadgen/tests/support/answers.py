"""Messages as a sidecar sends them."""

from collections.abc import Sequence

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2, routing_pb2, surface_pb2
from subagents.errors.v1 import error_reason_pb2


def a_request(calls: int) -> pb.DispatchRequest:
    """Return a dispatch of calls `call-0`, `call-1` and so on."""
    asked = [pb.ToolCall(call_id=f"call-{place}", tool_name="ask_shop") for place in range(calls)]
    return pb.DispatchRequest(dispatch_id="dispatch-1", calls=asked)


def a_frame(
    snapshot: Sequence[str] = (),
    events: Sequence[pb.DispatchEvent] = (),
    outcomes: Sequence[outcome_pb2.CallOutcome] = (),
    dispatch_id: str = "dispatch-1",
) -> pb.DispatchFrame:
    """Return a frame with what is given."""
    frame = pb.DispatchFrame(events=events)
    if snapshot:
        calls = [pb.CallSnapshot(call_id=one, state=pb.CALL_STATE_RUNNING) for one in snapshot]
        frame.snapshot.CopyFrom(pb.DispatchSnapshot(dispatch_id=dispatch_id, state=pb.START_STATE_STARTED, calls=calls))
    if outcomes:
        frame.result.CopyFrom(pb.DispatchResult(outcomes=outcomes))
    return frame


def an_event(sequence: int, call_id: str, settled: outcome_pb2.Outcome | None = None) -> pb.DispatchEvent:
    """Return that a call runs, or has settled."""
    changed = (
        pb.CallStateChanged(state=pb.CALL_STATE_RUNNING)
        if settled is None
        else pb.CallStateChanged(state=pb.CALL_STATE_SETTLED, outcome=an_outcome(call_id, settled))
    )
    return pb.DispatchEvent(sequence=sequence, call_id=call_id, state_changed=changed)


def an_outcome(call_id: str, outcome: outcome_pb2.Outcome = outcome_pb2.OUTCOME_SUCCEEDED) -> outcome_pb2.CallOutcome:
    """Return how a call ended, with a reason unless it succeeded."""
    found = outcome_pb2.CallOutcome(call_id=call_id, outcome=outcome)
    if outcome in {outcome_pb2.OUTCOME_SUCCEEDED, outcome_pb2.OUTCOME_FAILED}:
        found.attempts = 1
    if outcome != outcome_pb2.OUTCOME_SUCCEEDED:
        found.status.reason = error_reason_pb2.ERROR_REASON_ATTEMPT_TIMEOUT
    return found


def a_bound_turn() -> pb.BindTurnResponse:
    """Return a surface with two tools."""
    tools = [surface_pb2.SubAgentTool(name=name) for name in ("ask_shop", "ask_rewards")]
    surface = surface_pb2.Surface(sub_agent_tools=tools, fan_out_cap=2, binding_digest="sha256:1")
    return pb.BindTurnResponse(surface=surface, surface_token="token", state=pb.START_STATE_STARTED)


def an_ended_turn(outcomes: Sequence[outcome_pb2.CallOutcome]) -> pb.EndTurnResponse:
    """Return the end of a turn with these outcomes on record."""
    calls = [routing_pb2.RoutedCall(call_id=one.call_id, outcome=one.outcome) for one in outcomes]
    decision = routing_pb2.RoutingDecision(calls=calls)
    return pb.EndTurnResponse(state=pb.START_STATE_STARTED, routing_decision=decision)
