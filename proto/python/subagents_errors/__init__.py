"""Every way a call to the sidecar can fail, as one tree of exceptions.

    SubagentsError
        InvalidRequest        the request itself is wrong; repeating it will not help
        NotFound              the thing that was named does not exist (here, any more)
        Refused               the present state forbids it
        Conflict              lost a race; read again and decide anew
        AlreadyExists         the same id stands for another request
        Unauthenticated       who is calling is not proven
        NotAllowed            who is calling may not do this
        Overloaded            too much at once; come back after `retry_after`
        DeadlineExceeded      the deadline leaves no room for the work
        DependencyUnavailable something this needs is not there now
        InternalError         a defect of the sidecar; details are in its log only

The sidecar raises these, maps them to a gRPC status in one table (`sidecar/rpc/errors.py`), and the SDK raises the same
class again on the caller's side. Each class carries one `reason`; every reason is a value of the proto enum
`subagents.errors.v1.ErrorReason`. Standard library only, so that the core and both ends of the wire can share it.

Failures of *one call* inside a dispatch are not exceptions but values: their reasons are in `CallFailure`.
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
    PriorContextMissing,
    RecentTurnsIntact,
    RecordConflict,
    Refused,
    RunsElsewhere,
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
    "DeadlineTooShort",
    "DefinitionNotHeld",
    "DefinitionsUnavailable",
    "DelegationRefused",
    "DependencyUnavailable",
    "DispatchIdReused",
    "Draining",
    "FeatureUnsupported",
    "FieldProblem",
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
    "DeadlineExceeded",
    "Overloaded",
    "PriorContextMissing",
    "RecentTurnsIntact",
    "RecordConflict",
    "Refused",
    "RunsElsewhere",
    "SessionCreditExhausted",
    "SessionInvalid",
    "SessionOver",
    "StoreUnavailable",
    "SubagentsError",
    "SummaryOutdated",
    "SurfaceTokenExpired",
    "SurfaceTokenInvalid",
    "ToolBudgetExhausted",
    "ToolNotAllowed",
    "TooManyDispatches",
    "TurnEnded",
    "TurnIdReused",
    "Unauthenticated",
    "UnknownCall",
    "UnknownChild",
    "UnknownDispatch",
    "UnknownOrchestrator",
    "UnknownTurn",
    "GateFailed",
    "GateHeld",
    "PolicyDenied",
    "RequestIdReused",
    "RevisionConflict",
    "RoleRequired",
    "RoleTokenInvalid",
    "TransitionRefused",
    "UnknownDefinition",
    "WrongListener",
    "all_errors",
    "error_of_reason",
]
