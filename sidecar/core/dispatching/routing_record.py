"""The routing decision of one turn: the sub-agents that could be called, those that were, and the outcomes.

Built when a turn ends, and recorded with its end; used to judge how well orchestrators select sub-agents. It
contains no text of a user or a sub-agent.

Source: PC2-FR-15, REQUIREMENTS 6.8, DESIGN section 11.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import Outcome, Usage
from sidecar.core.identifiers import CallId, ChildId, DefinitionId, DispatchId, EpisodeId, Slot, TurnId
from sidecar.core.rollout.serving import CONTROL, PASSES_ON
from subagents_errors import Axis, CallFailure


class RoutedCall(msgspec.Struct, frozen=True):
    """One call of the turn. `started_at` is None if it was never run; `usage` is None if no tokens were reported."""

    dispatch_id: DispatchId
    call_id: CallId
    sub_agent_id: Slot | None
    child_id: ChildId | None
    emission_index: int
    outcome: Outcome
    reason: CallFailure | None
    axis: Axis
    started_at: datetime | None
    settled_at: datetime
    attempts: int
    status_events: int
    usage: Usage | None = None


class RoutingRecord(msgspec.Struct, frozen=True):
    """One per turn, also for a turn without any call (TN-35).

    Attributes:
        candidates: every listed slot of the surface, in order.
        calls: by `emission_index`, over all dispatches.
        intents: one report for each dispatch; then one for the intents that the parent declared at the end, if any.
        cap: the most severe of all dispatches.
        overhead: the time of its dispatches during which no sub-agent ran.
        principal_asserted_by: always `orchestrator`; the claims say whether a user token proved the principal.
        gate_passed: the parent accepted as many results as its join policy requires; no gate of a rollout.
    """

    turn_id: TurnId
    episode_id: EpisodeId
    orchestrator_id: DefinitionId
    candidates: tuple[Candidate, ...]
    calls: tuple[RoutedCall, ...]
    intents: tuple[IntentReport, ...]
    fan_out_cap: int
    cap: CapBehaviour
    cohort: Cohort
    binding_digest: str
    bound_at: datetime
    ended_at: datetime
    close_reason: str
    overhead: timedelta
    principal_asserted_by: str
    gate_passed: bool

    @property
    def record_id(self) -> str:
        """The id of the record, unique among all records."""
        return f"{self.turn_id}/routing"

    def arm_of(self, slot: Slot | None) -> str:
        """Return the arm that served a slot: `active`, `target` or `control`; see `arm_of`."""
        return arm_of(self.candidates, self.cohort.experiment_arm_assignment, slot)

    @property
    def called(self) -> tuple[Slot, ...]:
        """Slots that were called, each once, in emission order, before the cap."""
        slots = [call.sub_agent_id for call in self.calls if call.sub_agent_id is not None]
        return tuple(dict.fromkeys(slots))

    @property
    def intent_count(self) -> int:
        """The number of distinct sub-agents that the turn called. Source: PC2-D-64, TN-17."""
        return len(self.called)


def arm_of(candidates: Sequence[Candidate], assignment: str, slot: Slot | None) -> str:
    """Return the arm that serves a slot in a turn.

    Args:
        candidates: of the surface.
        assignment: the experiment arm that the caller sent.
        slot: the called slot; None for an unknown tool.

    Returns:
        `control` in the control arm; otherwise `target` if the user is outside the active definition's ramp; otherwise
        `active`; empty without a slot.
    """
    if slot is None:
        return ""
    # First: in an experiment the control arm is served by the target, but is counted as the control.
    if assignment == CONTROL:
        return CONTROL
    for each in candidates:
        # A called slot is served, so such a verdict can only be that of the active definition: the target serves.
        if each.slot == slot and each.verdict in PASSES_ON:
            return "target"
    return "active"


def distinct(slots: Sequence[Slot]) -> tuple[Slot, ...]:
    """Return each slot once, in order of first appearance."""
    return tuple(dict.fromkeys(slots))
