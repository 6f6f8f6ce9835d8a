"""Derives the parent's outcome from the end of an attempt, and the recording for replays.

`run_child` calls this when a child makes no further attempt. The parent gets the outcome; the recording goes into the
same fact, so that a replay has the inputs that led to this outcome.

Source: SX-21, SX-23, SX-51, PC2-FR-10.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

import msgspec

from sidecar.core.dispatching.money import cost_of
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Outcome, Usage, axis_of
from sidecar.core.dispatching.questions import REASON_OF
from sidecar.core.dispatching.routing_record import arm_of
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.retries import attempts_allowed
from sidecar.core.identifiers import AttemptId
from sidecar.core.journal.entries import AttemptFrames
from sidecar.core.journal.facts import DelegationSettled
from sidecar.core.journal.making.settling import settled_call, settled_together
from sidecar.core.journal.marks import Values, What
from sidecar.core.journal.texts import Texts
from sidecar.core.journal.turn_projection import settled_as
from sidecar.core.replaying.frames import StoppedCall
from sidecar.operations.ports import Recorder
from sidecar.operations.ready_list import LaidOut, Refusal
from sidecar.operations.turn.child.attempt_ends import fault_values, with_effect_unknown
from sidecar.operations.turn.child.call_context import CallContext
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.child.run_attempt import AttemptEnd, BrokenReport, Finished, OutOfBudget
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.recorded_frames import microseconds
from subagents_errors import CallFailure


def attempts_of(child: Child) -> int:
    """Return how many attempts the child may make. Source: SX-28."""
    return attempts_allowed(child.contract.execution)


UNKNOWN: Final = frozenset({CallFailure.EFFECT_UNKNOWN})
"""The reasons that already tell the parent about an effect."""
ALREADY_DONE: Final = "Before that, it may have changed something: do not ask again before the user has checked."
"""The hint of a call that failed after it had sent an effect, whether the effect's result is known or not."""


def outcome_of(child: Child, end: AttemptEnd, took: timedelta, usage: Usage | None) -> CallOutcome:
    """Return the outcome for an end. Source: PC2-FR-10, TN-26, DESIGN section 5."""
    outcome, reason, answer = Outcome.SUCCEEDED, None, Answer()
    match end:
        case BrokenReport(reason=why):
            outcome, reason, answer = Outcome.FAILED, why, end.evidence
        case OutOfBudget(answer):
            outcome, reason = Outcome.DEGRADED, CallFailure.BUDGET_EXHAUSTED
        case Finished(answer, asked):
            without_data = answer.data_unavailable or child.data.forces_degraded
            answer = Answer(answer.narration, answer.components, without_data)
            if asked is not None:
                outcome, reason = Outcome.SUSPENDED, REASON_OF[asked.kind]
            elif child.data.budget_hit:
                outcome, reason = Outcome.DEGRADED, CallFailure.BUDGET_EXHAUSTED
            elif without_data:
                outcome, reason = Outcome.DEGRADED, CallFailure.DATA_UNAVAILABLE
    return CallOutcome(
        call_id=child.call_id,
        tool_name=child.tool.name,
        sub_agent_id=child.slot,
        child_id=child.child_id,
        emission_index=child.step_idx,
        outcome=outcome,
        reason=reason,
        answer=answer,
        attempts=child.attempts,
        duration=took,
        usage=usage,
        # The reason `EFFECT_UNKNOWN` has a hint of its own.
        hint=ALREADY_DONE if outcome is Outcome.FAILED and child.data.effects_sent and reason not in UNKNOWN else "",
    )


def unrecorded_failure(outcome: CallOutcome, effects_sent: int = 0) -> CallOutcome:
    """Return the failure that replaces an unrecorded outcome: only durable answers are delivered.

    The parent thereby also loses the results of sent effects; the failure says so.
    """
    return CallOutcome(
        call_id=outcome.call_id,
        tool_name=outcome.tool_name,
        sub_agent_id=outcome.sub_agent_id,
        child_id=outcome.child_id,
        emission_index=outcome.emission_index,
        outcome=Outcome.FAILED,
        reason=CallFailure.RECORD_UNAVAILABLE,
        attempts=outcome.attempts,
        duration=outcome.duration,
        usage=outcome.usage,
        hint=ALREADY_DONE if effects_sent else "",
    )


def counted(child: Child, usage: Usage, turn: Turn, recorder: Recorder) -> Usage:
    """Count the tokens of an attempt; return them with their cost if the prices of the model are known."""
    card, cost = child.tool.card, cost_of(usage, child.tool.card.model)
    recorder.tokens_used(child.slot, usage)
    arm = arm_of(turn.surface.candidates, turn.claims.arm, child.slot)
    recorder.money_spent(child.slot, card.definition.id, arm, cost)
    return usage if cost is None else msgspec.structs.replace(usage, cost=cost)


def count_call(recorder: Recorder, turn: Turn, outcome: CallOutcome, definition_id: str) -> None:
    """Count a call or delegation by the definition and the arm that served it."""
    arm = arm_of(turn.surface.candidates, turn.claims.arm, outcome.sub_agent_id)
    # No text of the client, such as the name of an unknown tool: it could create any number of series in the metrics.
    slot, reason = outcome.sub_agent_id or "", outcome.reason or ""
    recorder.call_settled(slot, definition_id, arm, outcome.outcome, reason)


def recorded_attempts(child: Child, turn: Turn, narration: str) -> tuple[AttemptFrames, ...]:
    """Return the recorded frames of a child that settles now, and drop them; empty if frames are not recorded.

    `narration` is that of the outcome which the same fact records; frames refer to it instead of repeating it.
    """
    dispatch, frames = turn.dispatches.get(child.dispatch_id), child.take_frames()
    if frames is None or dispatch is None:
        return ()
    stopped = [
        StoppedCall(each.dispatch_id, call_id, reason.name, microseconds(at - each.received_at))
        for each in turn.dispatches.values()
        for call_id, reason, at in each.calls.stopped
        # A replay computes this stop itself.
        if reason is not CallFailure.JOIN_DEADLINE
    ]
    # A replay must also learn that no attempt was made, and why, e.g. because a breaker was open.
    attempts = frames.attempts or ([] if child.attempts else [frames.none_made()])
    return tuple(
        [
            AttemptFrames(
                turn.turn_id,
                each.attempt_id or AttemptId(f"{child.child_id}-none"),
                child.step_idx,
                each.number,
                each.to_row(dispatch.received_at, tuple(stopped), narration),
            )
            for each in attempts
        ]
    )


Over: TypeAlias = Callable[[CallOutcome, datetime], object]
"""Receives a child's outcome and its time, once the outcome is recorded or could not be recorded in time."""


class Settlement(msgspec.Struct, frozen=True):
    """A child whose last attempt has ended.

    Attributes:
        spent: tokens of all its attempts.
        place: place of its call in the dispatch. None: a delegation, which is not a call of the orchestrator.
    """

    dependencies: TurnDependencies
    child: Child
    context: CallContext
    end: AttemptEnd
    took: timedelta
    spent: Usage
    over: Over
    place: int | None

    def lay_out(self, now: datetime) -> LaidOut:
        """Return the facts to record, and the work that follows."""
        child = self.child
        # Before everything else: whatever the attempt returned, the parent must learn that an effect may have happened.
        end = with_effect_unknown(self.end) if child.data.effects_unknown else self.end
        spent = self.spent + child.ledger.usage_below if child.ledger.made else self.spent
        # None and not zero: a call without reported usage must not look like a free one.
        usage = spent if spent.input_tokens or spent.output_tokens else None
        outcome = outcome_of(child, end, self.took, usage)
        # After the last attempt and before the final event, which must be the last one of the log.
        if child.repeats:
            child.note_left_out(now)
        if isinstance(end, OutOfBudget) or child.data.budget_hit:
            which = end.which if isinstance(end, OutOfBudget) else "tool_calls"
            child.note(now, What.BUDGET_STOPPED, which)
        if isinstance(end, Finished) and end.asked is not None:
            question = self.dependencies.questions.suspend(child, end.asked, self.context.turn.claims, now)
            outcome = msgspec.structs.replace(outcome, question=question)
        if outcome.outcome is Outcome.FAILED:
            detail = end.detail if isinstance(end, BrokenReport) else ""
            tokens = () if usage is None else (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens)
            child.fail(now, str(outcome.reason), detail, *fault_values(end), *tokens)
        else:
            child.wait_for_merge(now, settled_as(outcome) if self.place is None else ())
        turn, tell, values = self.context.turn, partial(self._tell, outcome, now), list[Values]()
        frames = recorded_attempts(child, turn, "" if self.place is None else outcome.answer.narration)
        progress = child.progress(now, values)
        if self.place is None:
            body = DelegationSettled(self.context.dispatch_id, (progress,))
            texts = Texts(values=tuple(values))
            return LaidOut(tell, happened=self.dependencies.store.draft(turn.turn_id, now, body, texts, frames))
        call = settled_call(outcome, self.place, progress=progress, values=values, frames=frames)
        # `tell` runs after the append: an outcome that a client saw must survive a crash of this process.
        return LaidOut(tell, settled=call)

    def _tell(self, outcome: CallOutcome, settled_at: datetime, refused: Refusal, now: datetime) -> None:
        child, deps = self.child, self.dependencies
        if refused is None:
            # Only a recorded outcome gets a report: the report reads the child's events from the record.
            deps.reports.write(child, outcome)
        else:
            deps.recorder.anomaly("outcome_unrecorded", child.child_id)
            outcome = unrecorded_failure(outcome, child.data.effects_sent)
            if not isinstance(refused, RecordConflict):  # after a conflict, another sidecar settles the call
                self._correct(outcome, settled_at)
        child.settle(outcome, settled_at)
        if child.data.effects_unknown:
            message = f"{child.child_id} sent an effect whose result is not known; nothing repeats it"
            deps.recorder.anomaly("effect_unknown", message, {"sub_agent_id": child.slot, "child_id": child.child_id})
        deps.recorder.child_settled(child.slot, outcome.outcome, axis_of(outcome.outcome), self.took.total_seconds())
        count_call(deps.recorder, self.context.turn, outcome, child.tool.card.definition.id)
        # Last: it frees the slot, and the next call of the slot may start inside this call.
        self.over(outcome, now)

    def _correct(self, reported: CallOutcome, at: datetime) -> None:
        """Append an outcome that corrects one whose append timed out but may have succeeded.

        The outcome with the higher revision counts, so both orders of the two appends lead to the same result.
        """
        # A delegation has no outcome of its own on record; the events of its child are repeated by the next append.
        if self.place is not None:
            turn, dispatch_id = self.context.turn, self.context.dispatch_id
            correction = settled_together(dispatch_id, [settled_call(reported, self.place, revision=1)])
            turn.happened(dispatch_id, [self.dependencies.store.draft(turn.turn_id, at, *correction)])
