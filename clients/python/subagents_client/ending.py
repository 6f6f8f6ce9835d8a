"""Verdicts, and the result of ending a turn, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, unique

from subagents_client.events import StartState
from subagents_client.outcomes import CapBehaviour, IntentReport, Outcome
from subagents_client.surface import Candidate, Cohort
from subagents_errors import Axis


@unique
class Verdict(StrEnum):
    """The parent's decision about a child's result."""

    UNSPECIFIED = "unspecified"
    """Counts as accepted if the child answered, else as rejected."""
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """The parent could not use the result; the child is closed as failed."""


@dataclass(frozen=True, slots=True)
class Integration:
    """The parent's verdict on one child.

    Attributes:
        child_id: the child, as in `CallOutcome.child_id`.
        verdict: whether the parent used the child's result.
        reason: why, for the operator's timeline; at most 1 KiB; may be empty.
    """

    child_id: str
    verdict: Verdict = Verdict.ACCEPTED
    reason: str = ""


@unique
class FinalStatus(StrEnum):
    """How the work of one child ended."""

    UNSPECIFIED = "unspecified"
    """A status that this version of the SDK does not know."""
    COMPLETED = "completed"
    """The parent accepted the result."""
    FAILED = "failed"
    """The child has no result, or the parent rejected it."""


@unique
class ChildCloseReason(StrEnum):
    """Why one child was closed."""

    UNSPECIFIED = "unspecified"
    """A reason that this version of the SDK does not know."""
    INTEGRATED = "integrated"
    """The parent accepted the result."""
    INTEGRATION_FAILED = "integration_failed"
    """The parent rejected the result, or the result could not be recorded in time."""
    EXECUTION_FAILED = "execution_failed"
    """The child has no result to accept: it failed, was stopped, or asked a question."""
    TURN_ENDED = "turn_ended"
    """The turn ended without a verdict on a child whose definition sets `close_on_completion: false`."""
    PARENT_LOST = "parent_lost"
    """The parent did not end the turn; the sidecar closed it."""
    ENDED_BY_OPERATOR = "ended_by_operator"
    """An operator ended the turn."""


@unique
class TurnCloseReason(StrEnum):
    """Why one turn ended."""

    UNSPECIFIED = "unspecified"
    """The turn is open, or this version of the SDK does not know the reason."""
    ENDED = "ended"
    """The consumer-agent ended the turn."""
    PARENT_LOST = "parent_lost"
    """The consumer-agent did not end the turn; the sidecar closed it."""
    ENDED_BY_OPERATOR = "ended_by_operator"
    """An operator ended the turn."""


@dataclass(frozen=True, slots=True)
class ChildSummary:
    """A closed child.

    Attributes:
        child_id: id of the child.
        sub_agent_id: the slot that was called.
        emission_index: position of the call in emission order over all dispatches of the turn, from 0.
        final_status: how the work of the child ended.
        close_reason: why the child was closed.
    """

    child_id: str
    sub_agent_id: str
    emission_index: int
    final_status: FinalStatus
    close_reason: ChildCloseReason


@dataclass(frozen=True, slots=True)
class RoutedCall:
    """One call in the routing decision. It contains no text of the user or of a sub-agent.

    Attributes:
        call_id: id of the call.
        sub_agent_id: the slot that was called; empty for an unknown tool.
        child_id: id of the child; empty if none was started.
        emission_index: position of the call in emission order over all dispatches of the turn, from 0.
        outcome: how the call ended.
        reason: why the call did not fully succeed, as in `CallStatus.reason`; `UNSPECIFIED` if it did.
        axis: kind of failure, as in `CallStatus.axis`.
        started_at: when the first attempt began; None if the call did not run.
        settled_at: when the call got its outcome; None if the record has no time.
        attempts: number of attempts.
        status_events: number of progress reports, including those that the status policy suppressed.
        dispatch_id: the dispatch of the call.
    """

    call_id: str
    sub_agent_id: str
    child_id: str
    emission_index: int
    outcome: Outcome
    reason: str
    axis: Axis
    started_at: datetime | None
    settled_at: datetime | None
    attempts: int
    status_events: int
    dispatch_id: str


@dataclass(frozen=True, slots=True)
class RoutingDecision:
    """The recorded summary of one turn. Source: PC2-FR-15, PC2-AC-10.

    Attributes:
        turn_id: id of the turn.
        episode_id: id of the conversation.
        orchestrator_id: id of the orchestrator's definition.
        candidates: every sub-agent that the orchestrator lists, and whether it was on the surface.
        calls: the calls of all dispatches, in emission order.
        intents: the intents of each dispatch, in the order of the dispatches.
        intent_count: number of different sub-agents that the turn called, including dropped calls.
        fan_out_cap: `Surface.fan_out_cap`.
        cap: the worst value of all dispatches: over, else at, else within.
        cohort: the cohort of the turn.
        binding_digest: `Surface.binding_digest`.
        bound_at: when the turn was bound.
        ended_at: when the turn ended.
        close_reason: why the turn ended.
        overhead: time that all dispatches spent in the sidecar, without the waits for sub-agents and data services.
        principal_asserted_by: what named the principal; always `orchestrator`.
        gate_passed: as in `TurnEnd`.
    """

    turn_id: str
    episode_id: str
    orchestrator_id: str
    candidates: Sequence[Candidate]
    calls: Sequence[RoutedCall]
    intents: Sequence[IntentReport]
    intent_count: int
    fan_out_cap: int
    cap: CapBehaviour
    cohort: Cohort
    binding_digest: str
    bound_at: datetime | None
    ended_at: datetime | None
    close_reason: TurnCloseReason
    overhead: timedelta
    principal_asserted_by: str
    gate_passed: bool


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The result of ending a turn.

    Attributes:
        state: whether this request ended the turn or repeated an earlier request.
        children: all children of the turn, in emission order.
        gate_passed: whether the parent accepted the results of all calls that were planned to run; the sidecar only
            reports the value.
        routing_decision: the recorded summary of the turn.
    """

    state: StartState
    children: Sequence[ChildSummary]
    gate_passed: bool
    routing_decision: RoutingDecision
