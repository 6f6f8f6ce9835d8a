"""What happens in a dispatch, as messages. Made once for each frame that is sent."""

from collections.abc import Sequence

from sidecar.core.dispatching.frames import (
    CallStateChanged,
    DispatchEvent,
    DispatchResult,
    Frame,
    Gap,
    Snapshot,
)
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.rpc.translate.enums import AXIS, CALL_STATE, CAP, OUTCOME, REASON
from sidecar.rpc.translate.surfaces import start_state
from sidecar.rpc.translate.times import duration, timestamp
from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2
from subagents.errors.v1 import error_reason_pb2


def frame_message(frame: Frame) -> dispatch_pb2.DispatchFrame:
    """Return a frame."""
    return dispatch_pb2.DispatchFrame(
        snapshot=None if frame.snapshot is None else _snapshot(frame.snapshot),
        events=[_event(event) for event in frame.events],
        result=None if frame.result is None else result_message(frame.result),
    )


def result_message(result: DispatchResult) -> dispatch_pb2.DispatchResult:
    """Return how a dispatch ended."""
    return dispatch_pb2.DispatchResult(
        outcomes=[outcome_message(outcome) for outcome in result.outcomes],
        intents=intents_message(result.intents),
        cap=CAP[result.cap],
        overhead=duration(result.overhead),
    )


def intents_message(intents: IntentReport) -> outcome_pb2.IntentReport:
    """Return the intent counts of one response."""
    return outcome_pb2.IntentReport(
        declared=intents.declared,
        emitted=intents.emitted,
        failsafe=intents.failsafe,
        switched=intents.switched,
        prior_context_missing=intents.prior_context_missing,
    )


def outcome_message(outcome: CallOutcome) -> outcome_pb2.CallOutcome:
    """Return the outcome of one call."""
    return outcome_pb2.CallOutcome(
        call_id=outcome.call_id,
        tool_name=outcome.tool_name,
        sub_agent_id=outcome.sub_agent_id or "",
        child_id=outcome.child_id or "",
        emission_index=outcome.emission_index,
        outcome=OUTCOME[outcome.outcome],
        narration=outcome.answer.narration,
        components=_components(outcome),
        data_unavailable=outcome.answer.data_unavailable,
        status=_status(outcome),
        attempts=outcome.attempts,
        duration=None if outcome.duration is None else duration(outcome.duration),
        usage=None
        if outcome.usage is None
        else outcome_pb2.TokenUsage(input_tokens=outcome.usage.input_tokens, output_tokens=outcome.usage.output_tokens),
    )


def _components(outcome: CallOutcome) -> Sequence[outcome_pb2.Component]:
    return [
        outcome_pb2.Component(
            name=component.name,
            tool_input_json=component.tool_input_json,
            component_data_json=component.component_data_json,
        )
        for component in outcome.answer.components
    ]


def _status(outcome: CallOutcome) -> error_reason_pb2.CallStatus | None:
    if outcome.reason is None:
        return None
    return error_reason_pb2.CallStatus(
        reason=REASON[outcome.reason],
        axis=AXIS[outcome.axis],
        message=outcome.message,
    )


def _snapshot(snapshot: Snapshot) -> dispatch_pb2.DispatchSnapshot:
    calls = [
        dispatch_pb2.CallSnapshot(
            call_id=call.call_id,
            sub_agent_id=call.slot or "",
            child_id=call.child_id or "",
            state=CALL_STATE[call.state],
        )
        for call in snapshot.calls
    ]
    return dispatch_pb2.DispatchSnapshot(
        dispatch_id=snapshot.dispatch_id,
        state=start_state(attached=snapshot.attached),
        sequence=snapshot.sequence,
        calls=calls,
    )


def _event(event: DispatchEvent) -> dispatch_pb2.DispatchEvent:
    what = event.what
    message = dispatch_pb2.DispatchEvent(sequence=event.sequence, time=timestamp(event.time))
    if isinstance(what, CallStateChanged):
        message.call_id = what.call_id
        message.state_changed.state = CALL_STATE[what.state]
        if what.outcome is not None:
            message.state_changed.outcome = OUTCOME[what.outcome]
    elif isinstance(what, Gap):
        message.gap.from_sequence, message.gap.to_sequence = what.first, what.last
    else:
        message.call_id = what.call_id or ""
        message.status.CopyFrom(
            dispatch_pb2.StatusUpdate(
                type=what.type, sub_agent_ids=what.slots, count=what.count, attributes=what.attributes
            )
        )
    return message
