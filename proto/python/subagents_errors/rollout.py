"""Why a step of a rollout is refused."""

from subagents_errors.authority import NotAllowed, Unauthenticated
from subagents_errors.tree import AlreadyExists, Conflict, NotFound, Refused


class TransitionRefused(Refused):
    """The rollout's rules do not allow the step in the present state; `metadata` may name a `remedy`."""

    reason = "TRANSITION_REFUSED"


class GateFailed(Refused):
    """A gate failed the step; `metadata` names the gate. The ramp stays unchanged."""

    reason = "GATE_FAILED"


class GateHeld(Refused):
    """A gate has not passed the step: its answer is pending, inconclusive, expired, about other content, or missing."""

    reason = "GATE_HELD"


class PolicyDenied(Refused):
    """A lifecycle policy does not allow the step now; the message says why."""

    reason = "POLICY_DENIED"


class RevisionConflict(Conflict):
    """The rollout or the named content has changed since it was read; `metadata` has the present one. Read again."""

    reason = "REVISION_CONFLICT"


class RequestIdReused(AlreadyExists):
    """The request id was used for other contents."""

    reason = "REQUEST_ID_REUSED"


class UnknownDefinition(NotFound):
    """Neither the configuration nor the record has a definition or slot with that name."""

    reason = "UNKNOWN_DEFINITION"


class RoleRequired(NotAllowed):
    """The caller's role does not allow the method; `metadata` names the roles that do."""

    reason = "ROLE_REQUIRED"


class RoleTokenInvalid(Unauthenticated):
    """The role token is missing, expired, not yet valid, or not signed by an accepted key."""

    reason = "ROLE_TOKEN_INVALID"
