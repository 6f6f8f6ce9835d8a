"""How a turn ends, as plain values."""

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
    """What the parent makes of a child's result."""

    UNSPECIFIED = "unspecified"
    """Accepted for a child that answered, rejected for any other."""
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """It could not be used, which makes the child fail."""


@dataclass(frozen=True, slots=True)
class Integration:
    """The parent's verdict on one child; `reason` (at most 1 KiB) is for the operator's timeline."""

    child_id: str
    verdict: Verdict = Verdict.ACCEPTED
    reason: str = ""


@unique
class FinalStatus(StrEnum):
    """How the work of one child ended."""

    UNSPECIFIED = "unspecified"
    """One that this version does not know."""
    COMPLETED = "completed"
    FAILED = "failed"


@unique
class ChildCloseReason(StrEnum):
    """Why one child was closed."""

    UNSPECIFIED = "unspecified"
    """One that this version does not know."""
    INTEGRATED = "integrated"
    INTEGRATION_FAILED = "integration_failed"
    EXECUTION_FAILED = "execution_failed"
    TURN_ENDED = "turn_ended"
    """Without a verdict, of a child whose card sets `close_on_completion: false`."""
    PARENT_LOST = "parent_lost"
    ENDED_BY_OPERATOR = "ended_by_operator"


@unique
class TurnCloseReason(StrEnum):
    """Why one turn ended."""

    UNSPECIFIED = "unspecified"
    """It is open, or the reason is one that this version does not know."""
    ENDED = "ended"
    PARENT_LOST = "parent_lost"
    """Its parent never ended it; the sidecar closed it."""
    ENDED_BY_OPERATOR = "ended_by_operator"


@dataclass(frozen=True, slots=True)
class ChildSummary:
    """The end state of one child.

    Attributes:
        child_id: which child.
        sub_agent_id: the slot that was asked.
        emission_index: place of the call over all dispatches of the turn, from 0.
        final_status: whether its result went into the answer.
        close_reason: why it was closed.
    """

    child_id: str
    sub_agent_id: str
    emission_index: int
    final_status: FinalStatus
    close_reason: ChildCloseReason


@dataclass(frozen=True, slots=True)
class RoutedCall:
    """One call in the routing decision; holds nothing that the user or a sub-agent wrote."""

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
    """What was routed where in one turn; as `subagents.dispatch.v1.RoutingDecision`. Source: PC2-FR-15, PC2-AC-10."""

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
    """How a turn ended.

    Attributes:
        state: whether this request ended the turn or repeated an earlier one.
        children: every child, in emission order.
        gate_passed: False if any child failed; says nothing about the answer.
        routing_decision: the record of what was routed where.
    """

    state: StartState
    children: Sequence[ChildSummary]
    gate_passed: bool
    routing_decision: RoutingDecision
