"""Why a step of a rollout is not taken."""

from subagents_errors.authority import NotAllowed, Unauthenticated
from subagents_errors.tree import AlreadyExists, Conflict, NotFound, Refused


class TransitionRefused(Refused):
    """The rollout's rules do not allow the step from where the definition stands; `metadata` may name a `remedy`."""

    reason = "TRANSITION_REFUSED"


class GateFailed(Refused):
    """A gate said no; `metadata` names it. The ramp stays where it is."""

    reason = "GATE_FAILED"


class GateHeld(Refused):
    """A gate has not said yes: pending, inconclusive, expired, for another definition, or away."""

    reason = "GATE_HELD"


class PolicyDenied(Refused):
    """A lifecycle policy does not allow the step now; the message says why."""

    reason = "POLICY_DENIED"


class RevisionConflict(Conflict):
    """The rollout, or the content that was named, is not as it was read; `metadata` has the present one. Read again."""

    reason = "REVISION_CONFLICT"


class RequestIdReused(AlreadyExists):
    """The request id was used for other contents."""

    reason = "REQUEST_ID_REUSED"


class UnknownDefinition(NotFound):
    """No definition, or slot, of that name is in the configuration or on record."""

    reason = "UNKNOWN_DEFINITION"


class RoleRequired(NotAllowed):
    """The caller's role does not allow the method; `metadata` says which does."""

    reason = "ROLE_REQUIRED"


class RoleTokenInvalid(Unauthenticated):
    """The role token is missing, expired, not yet valid, or not signed by a key that is accepted for it."""

    reason = "ROLE_TOKEN_INVALID"
