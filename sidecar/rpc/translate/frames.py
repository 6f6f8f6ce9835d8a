"""Translates the frames of a dispatch (snapshot, events, result) into protobuf messages, once for each frame sent.

The functions fill nested messages in place. Building a nested message and passing it to its parent's constructor copies
it at every level, which took three times as long.
"""

from collections.abc import Sequence
from typing import Final

from sidecar.core.dispatching.frames import (
    CallStateChanged,
    DispatchEvent,
    DispatchResult,
    Frame,
    Gap,
    Snapshot,
)
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.money import in_usd
from sidecar.core.dispatching.outcomes import CallOutcome, Usage
from sidecar.core.dispatching.questions import Question
from sidecar.core.identifiers import CallId
from sidecar.rpc.translate.enums import ANSWERER, AXIS, CALL_STATE, CAP, OUTCOME, QUESTION_KIND, REASON
from sidecar.rpc.translate.fields import EPOCH, fill_duration, fill_timestamp
from sidecar.rpc.translate.surfaces import start_state
from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2, question_pb2

Told = dict[CallId, outcome_pb2.CallOutcome]
"""The outcomes that this stream has already sent as events.

The result copies these messages, which is cheaper than translating the outcomes again.
"""
NONE_TOLD: Final[Told] = {}
"""A default that stays empty: `fill_result` only reads it."""


def fill_frame(message: dispatch_pb2.DispatchFrame, frame: Frame, told: Told) -> None:
    """Fill in an empty frame.

    Args:
        message: target; must be empty.
        frame: source.
        told: outcomes sent on this stream so far; the outcomes of this frame's events are added.
    """
    if frame.snapshot is not None:
        _fill_snapshot(message.snapshot, frame.snapshot)
    if frame.events:
        _add_events(message, frame.events, told)
    if frame.result is not None:
        fill_result(message.result, frame.result, told)


def fill_result(message: dispatch_pb2.DispatchResult, result: DispatchResult, told: Told = NONE_TOLD) -> None:
    """Fill in the result of a dispatch with all outcomes; outcomes in `told` are copied."""
    # In the order of the calls, which the operation has already restored.
    for outcome in result.outcomes:
        if outcome.call_id in told:
            # `append` copies the message; the original belongs to a frame that was already sent.
            message.outcomes.append(told[outcome.call_id])
        else:
            fill_outcome(message.outcomes.add(), outcome)
    fill_intents(message.intents, result.intents)
    message.cap = CAP[result.cap]
    fill_duration(message.overhead, result.overhead)


def fill_intents(message: outcome_pb2.IntentReport, intents: IntentReport) -> None:
    """Fill in the intent counts of one response."""
    message.SetInParent()  # if all counts are 0, no field is set and the message would look absent
    message.declared, message.emitted, message.failsafe = intents.declared, intents.emitted, intents.failsafe
    message.switched, message.prior_context_missing = intents.switched, intents.prior_context_missing


def fill_usage(message: outcome_pb2.TokenUsage, usage: Usage) -> None:
    """Fill in token counts and their cost."""
    message.SetInParent()
    message.input_tokens, message.output_tokens = usage.input_tokens, usage.output_tokens
    if usage.cached_input_tokens is not None:
        # Absent if the runner did not report it: 0 would mean that the cache was not hit.
        message.cached_input_tokens = usage.cached_input_tokens
    if usage.cost is not None:
        message.cost_usd = in_usd(usage.cost)


def fill_outcome(message: outcome_pb2.CallOutcome, outcome: CallOutcome) -> None:
    """Fill in the outcome of one call."""
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
    if outcome.question is not None:
        _fill_question(message.question, outcome.question)
    message.attempts = outcome.attempts
    if outcome.duration is not None:
        fill_duration(message.duration, outcome.duration)
    if outcome.usage is not None:
        fill_usage(message.usage, outcome.usage)


def _fill_question(message: question_pb2.Question, question: Question) -> None:
    message.kind, message.answerer = QUESTION_KIND[question.kind], ANSWERER[question.answerer]
    message.text, message.about_json, message.receipt = question.text, question.about_json, question.receipt
    fill_timestamp(message.expires_at, question.expires_at)


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


def _add_events(frame: dispatch_pb2.DispatchFrame, events: Sequence[DispatchEvent], told: Told) -> None:
    for event in events:
        message = frame.events.add()
        what = event.what
        message.sequence = event.sequence
        # As `fill_timestamp` does; written here because it runs for each event of each stream.
        time, since = message.occurred_at, event.time - EPOCH
        time.seconds, time.nanos = since.days * 86_400 + since.seconds, since.microseconds * 1000
        if isinstance(what, CallStateChanged):
            message.call_id = what.call_id
            changed = message.state_changed
            changed.state = CALL_STATE[what.state]
            if what.outcome is not None:
                fill_outcome(changed.outcome, what.outcome)
                # Kept by reference, and never changed afterwards: `fill_result` copies it.
                told[what.call_id] = changed.outcome
        # Events that this process no longer has; the client must not expect them.
        elif isinstance(what, Gap):
            message.gap.from_sequence, message.gap.to_sequence = what.first, what.last
        else:
            message.call_id = what.call_id or ""
            status = message.status
            status.type, status.count = what.type, what.count
            status.sub_agent_ids.extend(what.slots)
            if what.attributes:
                status.attributes.update(what.attributes)
