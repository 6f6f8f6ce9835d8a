"""What happens in a dispatch, as messages. Made once for each frame that is sent.

Messages are filled in where they stand, field by field: giving parts to a constructor copies each of them once more for
every level, and took three times as long.
"""

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
from sidecar.rpc.translate.fields import EPOCH, fill_duration
from sidecar.rpc.translate.surfaces import start_state
from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2


def fill_frame(message: dispatch_pb2.DispatchFrame, frame: Frame) -> None:
    """Fill in an empty frame."""
    if frame.snapshot is not None:
        _fill_snapshot(message.snapshot, frame.snapshot)
    if frame.events:
        _add_events(message, frame.events)
    if frame.result is not None:
        fill_result(message.result, frame.result)


def fill_result(message: dispatch_pb2.DispatchResult, result: DispatchResult) -> None:
    """Fill in how a dispatch ended."""
    for outcome in result.outcomes:
        fill_outcome(message.outcomes.add(), outcome)
    fill_intents(message.intents, result.intents)
    message.cap = CAP[result.cap]
    fill_duration(message.overhead, result.overhead)


def fill_intents(message: outcome_pb2.IntentReport, intents: IntentReport) -> None:
    """Fill in the intent counts of one response."""
    message.SetInParent()  # counts of 0 have no field to set
    message.declared, message.emitted, message.failsafe = intents.declared, intents.emitted, intents.failsafe
    message.switched, message.prior_context_missing = intents.switched, intents.prior_context_missing


def fill_outcome(message: outcome_pb2.CallOutcome, outcome: CallOutcome) -> None:
    """Fill in what one call came to."""
    answer = outcome.answer
    message.call_id, message.tool_name = outcome.call_id, outcome.tool_name
    message.sub_agent_id, message.child_id = outcome.sub_agent_id or "", outcome.child_id or ""
    message.emission_index, message.outcome = outcome.emission_index, OUTCOME[outcome.outcome]
    message.narration, message.data_unavailable = answer.narration, answer.data_unavailable
    for component in answer.components:
        message.components.add(
            name=component.name,
            tool_input_json=component.tool_input_json,
            component_data_json=component.component_data_json,
        )
    if outcome.reason is not None:
        status = message.status
        status.reason, status.axis, status.message = REASON[outcome.reason], AXIS[outcome.axis], outcome.message
    message.attempts = outcome.attempts
    if outcome.duration is not None:
        fill_duration(message.duration, outcome.duration)
    if outcome.usage is not None:
        usage = message.usage
        usage.SetInParent()
        usage.input_tokens, usage.output_tokens = outcome.usage.input_tokens, outcome.usage.output_tokens
        if outcome.usage.cached_input_tokens is not None:
            usage.cached_input_tokens = outcome.usage.cached_input_tokens


def _fill_snapshot(message: dispatch_pb2.DispatchSnapshot, snapshot: Snapshot) -> None:
    message.dispatch_id, message.sequence = snapshot.dispatch_id, snapshot.sequence
    message.state = start_state(attached=snapshot.attached)
    for call in snapshot.calls:
        message.calls.add(
            call_id=call.call_id,
            sub_agent_id=call.slot or "",
            child_id=call.child_id or "",
            state=CALL_STATE[call.state],
        )


def _add_events(frame: dispatch_pb2.DispatchFrame, events: Sequence[DispatchEvent]) -> None:
    for event in events:
        message = frame.events.add()
        what = event.what
        message.sequence = event.sequence
        time, since = message.occurred_at, event.time - EPOCH
        time.seconds, time.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000
        if isinstance(what, CallStateChanged):
            message.call_id = what.call_id
            changed = message.state_changed
            changed.state = CALL_STATE[what.state]
            if what.outcome is not None:
                changed.outcome = OUTCOME[what.outcome]
        elif isinstance(what, Gap):
            message.gap.from_sequence, message.gap.to_sequence = what.first, what.last
        else:
            message.call_id = what.call_id or ""
            status = message.status
            status.type, status.count = what.type, what.count
            status.sub_agent_ids.extend(what.slots)
            if what.attributes:
                status.attributes.update(what.attributes)
