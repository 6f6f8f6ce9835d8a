"""The exceptions. See the package docstring for the tree."""

from collections.abc import Iterator

from subagents_errors.root import SubagentsError


class InvalidRequest(SubagentsError):
    """The request itself is wrong. `fields` names the wrong fields."""

    reason = "INVALID_REQUEST"


class MalformedMessage(InvalidRequest):
    """The bytes are not a message of the expected type (truncated, bad UTF-8, too deep)."""

    reason = "MALFORMED_MESSAGE"


class SessionInvalid(InvalidRequest):
    """The client violates the contract of the lane."""

    reason = "SESSION_INVALID"


class InlineComponent(InvalidRequest):
    """A text that must be pure narration contains component data. `fields` names the field."""

    reason = "INLINE_COMPONENT"


class NotFound(SubagentsError):
    """The named object does not exist."""

    reason = "NOT_FOUND"


class UnknownOrchestrator(NotFound):
    """No definition with that id has sub-agents."""

    reason = "UNKNOWN_ORCHESTRATOR"


class UnknownDispatch(NotFound):
    """This sidecar has no dispatch with that id."""

    reason = "UNKNOWN_DISPATCH"


class UnknownCall(NotFound):
    """The dispatch has no call with that id."""

    reason = "UNKNOWN_CALL"


class UnknownChild(NotFound):
    """The turn has no child with that id."""

    reason = "UNKNOWN_CHILD"


class UnknownTurn(NotFound):
    """The record has nothing about that turn."""

    reason = "UNKNOWN_TURN"


class Refused(SubagentsError):
    """The present state forbids the request."""

    reason = "REFUSED"


class BindingDigestMismatch(Refused):
    """The caller's binding digest differs from that of the surface in the token. Bind again."""

    reason = "BINDING_DIGEST_MISMATCH"


class SurfaceTokenExpired(Refused):
    """The surface token is too old, or this process no longer holds the definitions it was bound to. Bind again."""

    reason = "SURFACE_TOKEN_EXPIRED"


class TurnEnded(Refused):
    """The turn was ended, by its parent or by the reaper."""

    reason = "TURN_ENDED"


class TooManyDispatches(Refused):
    """The turn has used its `max_dispatches_per_turn`."""

    reason = "TOO_MANY_DISPATCHES"


class PriorContextMissing(Refused):
    """`strict` is set, the calls switch intent, and a call to a new sub-agent has no `prior_context`."""

    reason = "PRIOR_CONTEXT_MISSING"


class ChildClosed(Refused):
    """The child is closed, or its state forbids the request."""

    reason = "CHILD_CLOSED"


class DefinitionNotHeld(Refused):
    """The runner host does not hold the definition digest; send the card."""

    reason = "DEFINITION_NOT_HELD"


class CompactionNotDue(Refused):
    """The episode is not over a compaction threshold, so no summary may be written."""

    reason = "COMPACTION_NOT_DUE"


class RecentTurnsIntact(Refused):
    """The summary would replace one of the most recent turns, which must stay intact."""

    reason = "RECENT_TURNS_INTACT"


class RunsElsewhere(Refused):
    """The dispatch runs at another sidecar, which is alive; only that sidecar can do this."""

    reason = "RUNS_ELSEWHERE"


class ScoreRefused(Refused):
    """The call cannot be scored. `metadata` says why: `cause`."""

    reason = "SCORE_REFUSED"


class FeatureUnsupported(Refused):
    """The request requires a feature that this sidecar does not offer. `metadata` names the feature."""

    reason = "FEATURE_UNSUPPORTED"


class Conflict(SubagentsError):
    """The request lost a compare-and-set: read again."""

    reason = "CONFLICT"


class SummaryOutdated(Conflict):
    """Another summary of the episode was written meanwhile. Read the episode again."""

    reason = "SUMMARY_OUTDATED"


class RecordConflict(Conflict):
    """The record contradicts the request: usually another sidecar has taken over this turn. Resume the dispatch."""

    reason = "RECORD_CONFLICT"


class AlreadyExists(SubagentsError):
    """The same id was used for another request."""

    reason = "ALREADY_EXISTS"


class DispatchIdReused(AlreadyExists):
    """`dispatch_id` already names a dispatch with other contents."""

    reason = "DISPATCH_ID_REUSED"


class ScoreIdReused(AlreadyExists):
    """`score_id` already names a score of the turn with other contents."""

    reason = "SCORE_ID_REUSED"


class TurnIdReused(AlreadyExists):
    """`turn_id` already names a turn that was bound or ended with other contents."""

    reason = "TURN_ID_REUSED"


class Overloaded(SubagentsError):
    """A limit on concurrency or size is reached."""

    reason = "OVERLOADED"


class AdmissionRefused(Overloaded):
    """As many turns or dispatches as this process accepts are in flight, or too little time is left to serve one."""

    reason = "ADMISSION_REFUSED"


class VerticalBusy(AdmissionRefused):
    """The vertical has as many running dispatches as one vertical may have; other verticals are served."""

    reason = "VERTICAL_BUSY"


class PrincipalBusy(AdmissionRefused):
    """The user has as many running dispatches as one user may have."""

    reason = "PRINCIPAL_BUSY"


class MessageTooLarge(Overloaded):
    """The request, or one of its parts, is larger than the limit that `metadata` names."""

    reason = "MESSAGE_TOO_LARGE"


class SessionCreditExhausted(Overloaded):
    """An operation of a lane has more results than its client's credit allows. `metadata` names the credit."""

    reason = "SESSION_CREDIT_EXHAUSTED"


class ToolBudgetExhausted(Overloaded):
    """The child has used up its tool calls."""

    reason = "TOOL_BUDGET_EXHAUSTED"


class DeadlineExceeded(SubagentsError):
    """The deadline leaves no time for the work."""

    reason = "DEADLINE_EXCEEDED"


class DeadlineTooShort(DeadlineExceeded):
    """The time until the client's deadline is shorter than the margin for delivering the outcomes."""

    reason = "DEADLINE_TOO_SHORT"


class DependencyUnavailable(SubagentsError):
    """A service or store that the request needs is unavailable."""

    reason = "DEPENDENCY_UNAVAILABLE"


class Draining(DependencyUnavailable):
    """The process accepts no new turns: it is shutting down, or an operator has drained it."""

    reason = "DRAINING"


class SessionOver(DependencyUnavailable):
    """The lane reached the end of its life, or its client did not read it. `metadata` names the cause."""

    reason = "SESSION_OVER"


class StoreUnavailable(DependencyUnavailable):
    """The store did not confirm the write, so the work was not started."""

    reason = "STORE_UNAVAILABLE"


class DefinitionsUnavailable(DependencyUnavailable):
    """No valid definitions have been loaded yet."""

    reason = "DEFINITIONS_UNAVAILABLE"


class MemoryUnavailable(DependencyUnavailable):
    """The episode memory did not answer."""

    reason = "MEMORY_UNAVAILABLE"


class InternalError(SubagentsError):
    """A defect of the sidecar. The message is neutral; details are in its log under the correlation id."""

    reason = "INTERNAL"


def all_errors() -> Iterator[type[SubagentsError]]:
    """Yield every class of the tree below the root, parents before children.

    A class outside this package that has no reason of its own is left out: callers see the class that it refines.
    """
    pending: list[type[SubagentsError]] = SubagentsError.__subclasses__()
    while pending:
        cls = pending.pop(0)
        if "reason" in vars(cls) or cls.__module__.startswith("subagents_errors."):
            yield cls
        pending.extend(cls.__subclasses__())


def error_of_reason(reason: str) -> type[SubagentsError] | None:
    """Return the class with this `reason`, or None if this version does not know the reason."""
    return next((cls for cls in all_errors() if cls.reason == reason), None)
