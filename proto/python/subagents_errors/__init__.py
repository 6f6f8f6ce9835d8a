"""Every way a call to the sidecar can fail, as one tree of exceptions.

    SubagentsError
        InvalidRequest        the request itself is wrong; a retry does not help
        NotFound              the named object does not exist, no longer exists, or is not here
        Refused               the present state forbids the request
        Conflict              the request lost a race; read again and decide again
        AlreadyExists         the id was already used for another request
        Unauthenticated       the caller's identity is not proven
        NotAllowed            the caller may not do this
        Overloaded            a limit is reached; retry after `retry_after`
        DeadlineExceeded      the deadline leaves no time for the work
        DependencyUnavailable a service or store that the request needs is unavailable
        InternalError         a defect of the sidecar; details are in its log only

The sidecar raises these exceptions and maps them to a gRPC status in one table (`sidecar/rpc/errors.py`). The SDK
raises the same class on the caller's side. Each class has one `reason`; every reason is a value of the proto enum
`subagents.errors.v1.ErrorReason`. The package uses only the standard library, so that the core, the sidecar's RPC layer
and the SDK can share it.

A failure of *one call* inside a dispatch is not an exception but a value: see `CallFailure`.
"""

from subagents_errors.authority import (
    BootSecretWrong,
    CallerNotAllowed,
    DelegationRefused,
    GrantInvalid,
    GrantSpent,
    NotAllowed,
    SurfaceTokenInvalid,
    ToolNotAllowed,
    Unauthenticated,
    WrongListener,
)
from subagents_errors.call_failures import Axis, CallFailure
from subagents_errors.rollout import (
    GateFailed,
    GateHeld,
    PolicyDenied,
    RequestIdReused,
    RevisionConflict,
    RoleRequired,
    RoleTokenInvalid,
    TransitionRefused,
    UnknownDefinition,
)
from subagents_errors.root import FieldProblem, SubagentsError
from subagents_errors.tree import (
    AdmissionRefused,
    AlreadyExists,
    BindingDigestMismatch,
    ChildClosed,
    CompactionNotDue,
    Conflict,
    DeadlineExceeded,
    DeadlineTooShort,
    DefinitionNotHeld,
    DefinitionsUnavailable,
    DependencyUnavailable,
    DispatchIdReused,
    Draining,
    FeatureUnsupported,
    InlineComponent,
    InternalError,
    InvalidRequest,
    MalformedMessage,
    MemoryUnavailable,
    MessageTooLarge,
    NotFound,
    Overloaded,
    PrincipalBusy,
    PriorContextMissing,
    RecentTurnsIntact,
    RecordConflict,
    Refused,
    RunsElsewhere,
    ScoreIdReused,
    ScoreRefused,
    SessionCreditExhausted,
    SessionInvalid,
    SessionOver,
    StoreUnavailable,
    SummaryOutdated,
    SurfaceTokenExpired,
    ToolBudgetExhausted,
    TooManyDispatches,
    TurnEnded,
    TurnIdReused,
    UnknownCall,
    UnknownChild,
    UnknownDispatch,
    UnknownOrchestrator,
    UnknownTurn,
    VerticalBusy,
    all_errors,
    error_of_reason,
)

__all__ = [
    "AdmissionRefused",
    "AlreadyExists",
    "Axis",
    "BindingDigestMismatch",
    "BootSecretWrong",
    "CallFailure",
    "CallerNotAllowed",
    "ChildClosed",
    "CompactionNotDue",
    "Conflict",
    "DeadlineExceeded",
    "DeadlineTooShort",
    "DefinitionNotHeld",
    "DefinitionsUnavailable",
    "DelegationRefused",
    "DependencyUnavailable",
    "DispatchIdReused",
    "Draining",
    "FeatureUnsupported",
    "FieldProblem",
    "GateFailed",
    "GateHeld",
    "GrantInvalid",
    "GrantSpent",
    "InlineComponent",
    "InternalError",
    "InvalidRequest",
    "MalformedMessage",
    "MemoryUnavailable",
    "MessageTooLarge",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "PolicyDenied",
    "PrincipalBusy",
    "PriorContextMissing",
    "RecentTurnsIntact",
    "RecordConflict",
    "Refused",
    "RequestIdReused",
    "RevisionConflict",
    "RoleRequired",
    "RoleTokenInvalid",
    "RunsElsewhere",
    "ScoreIdReused",
    "ScoreRefused",
    "SessionCreditExhausted",
    "SessionInvalid",
    "SessionOver",
    "StoreUnavailable",
    "SubagentsError",
    "SummaryOutdated",
    "SurfaceTokenExpired",
    "SurfaceTokenInvalid",
    "TooManyDispatches",
    "ToolBudgetExhausted",
    "ToolNotAllowed",
    "TransitionRefused",
    "TurnEnded",
    "TurnIdReused",
    "Unauthenticated",
    "UnknownCall",
    "UnknownChild",
    "UnknownDefinition",
    "UnknownDispatch",
    "UnknownOrchestrator",
    "UnknownTurn",
    "VerticalBusy",
    "WrongListener",
    "all_errors",
    "error_of_reason",
]
