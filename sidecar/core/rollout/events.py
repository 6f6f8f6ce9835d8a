"""The events of each step: lifecycle audit events, and separate rollout events.

A step and its events are written in one transaction; sinks outside receive them later from the audit.

Source: PF1-FR-10, PF1 §5.7, TN-85.
"""

from datetime import datetime
from enum import StrEnum, unique
from typing import Final

import msgspec

from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot
from sidecar.core.rollout.states import LifecycleState, Trigger

RENEWED_SALT: Final = "salt "
"""Beginning of the detail of an event `activated` that gave the slot a new salt; the salt follows."""


@unique
class RolloutEventKind(StrEnum):
    """The kinds of rollout events; lifecycle transitions are not among them. Source: PF1-D-49."""

    SEEN = "definition_seen"
    REVISED = "definition_revised"
    CONFIGURED = "configured"
    RAMP_SET = "ramp_set"
    RAMPED_DOWN = "ramped_down"
    BREACH_ACKNOWLEDGED = "breach_acknowledged"
    GATE_OVERRIDDEN = "gate_overridden"
    ACTIVATED = "activated"
    SLOT_EMPTIED = "slot_emptied"
    """A rollback left the slot empty on request, although a target was recorded."""
    FLAGS_NAMED = "flags_named"
    """A revision names flags for the first time, again, or in another vertical; they are not switched on yet."""
    FLAGS_KEPT = "flags_kept"
    """A revision no longer names the flags; they gate the definition until they are retired."""
    FLAGS_CREATED = "flags_created"
    FLAGS_ON = "flags_on"
    FLAGS_RETIRED = "flags_retired"
    FLAG_SWITCHED = "flag_switched"
    """An operator switched one of the two flags; the ramp's own switches are `flags_on`."""
    KILLED = "killed"
    DECOMMISSION_BEGUN = "decommission_begun"
    DECOMMISSION_STEP = "decommission_step"
    DECOMMISSION_DECIDED = "decommission_decided"
    DECOMMISSION_UNDONE = "decommission_undone"
    DECOMMISSION_OVERDUE = "decommission_overdue"
    """The window of a decommission has passed; written once for each, whichever sidecar sees it first."""
    REFUSED = "refused"
    HELD = "held"


class AuditCohort(msgspec.Struct, frozen=True):
    """The cohort of an audit event, with the keys of PF1 §5.7. `ramp_step_percent` is a snapshot (PF1-D-47)."""

    agent_definition_version: str
    active_flags: tuple[str, ...]
    ramp_step_percent: float


class TransitionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One lifecycle transition. Unique by definition digest and target state (DESIGN section 8).

    Attributes:
        actor_key: what authenticated the actor: the id of an operator's key, or the URL of an issuer; empty: no token
            was involved, or the event is older than this field.
        actor_role: the role in which the actor asked; empty where `actor_key` is empty.
        traceparent: the W3C trace in which the step was requested; empty: none, or the event is older than this field.
    """

    slot: Slot
    subagent_id: DefinitionId
    digest: Digest
    source_state: LifecycleState
    target_state: LifecycleState
    trigger: Trigger
    agent_definition_commit: Commit
    cohort: AuditCohort
    at: datetime
    actor: str
    reason: str
    request_id: str
    actor_key: str = ""
    actor_role: str = ""
    traceparent: str = ""

    @property
    def event_id(self) -> str:
        """The identity of the event over all replicas and repetitions."""
        # Unique, because a definition cannot enter a state twice (`states.MOVES`).
        return f"{self.digest}/{self.target_state}"


class DecommissionMark(msgspec.Struct, frozen=True, kw_only=True):
    """Marks an event of a decommission, with the fields of PF1-FR-10; its states are `rollback`. Source: TN-87.

    Attributes:
        step: `begin`, `decide`, `undo`, or the name of one of the five steps.
    """

    step: str
    trigger: Trigger
    agent_definition_commit: Commit
    cohort: AuditCohort
    source_state: LifecycleState = LifecycleState.ROLLBACK
    target_state: LifecycleState = LifecycleState.ROLLBACK


@unique
class GateVerdict(StrEnum):
    """The verdict of a gate's answer."""

    PASS = "pass"  # noqa: S105  a verdict, no secret
    FAIL = "fail"
    PENDING = "pending"
    INCONCLUSIVE = "inconclusive"
    UNAVAILABLE = "unavailable"
    """No valid verdict: no client, an outage, an expired verdict, or a verdict about another step."""


class GateResult(msgspec.Struct, frozen=True):
    """The answer of one gate about one step.

    Attributes:
        summary: the gate's own summary, or why there is no verdict; may be empty.
        overridden: the gate failed, and an operator's override let the step pass.
    """

    gate: str
    verdict: GateVerdict
    summary: str = ""
    overridden: bool = False

    @property
    def passed(self) -> bool:
        """Whether this gate lets the step pass."""
        return self.overridden or self.verdict is GateVerdict.PASS

    @property
    def words(self) -> str:
        """The answer in one line, for the audit and for operators."""
        verdict = "held" if self.verdict is GateVerdict.UNAVAILABLE else str(self.verdict)
        said = f"{self.gate}: {verdict}" + (f": {self.summary}" if self.summary else "")
        return f"{said}; passed by an operator's override" if self.overridden else said


class RolloutEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a rollout that is no lifecycle transition.

    Attributes:
        actor_key, actor_role, traceparent: as in `TransitionEvent`.
        before, after: ramps in basis points, if the event is about a ramp.
        sought: for a refused or held request, the requested change; see `StepRequest.sought`.
        mode: of the rollout, if this event changed it.
        decommission: for an event of a decommission, otherwise None.
        gate_results: the answers of the gates, in order.
    """

    slot: Slot
    subagent_id: DefinitionId
    digest: Digest
    what: RolloutEventKind
    at: datetime
    actor: str
    reason: str
    request_id: str
    actor_key: str = ""
    actor_role: str = ""
    traceparent: str = ""
    before: int = 0
    after: int = 0
    detail: str = ""
    sought: str = ""
    mode: str = ""
    decommission: DecommissionMark | None = None
    gate_results: tuple[GateResult, ...] = ()
