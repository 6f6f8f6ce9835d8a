import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import surface_pb2 as _surface_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LifecycleState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIFECYCLE_STATE_UNSPECIFIED: _ClassVar[LifecycleState]
    LIFECYCLE_STATE_DEV: _ClassVar[LifecycleState]
    LIFECYCLE_STATE_TEST: _ClassVar[LifecycleState]
    LIFECYCLE_STATE_PROMOTE: _ClassVar[LifecycleState]
    LIFECYCLE_STATE_ROLLBACK: _ClassVar[LifecycleState]

class RolloutMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLOUT_MODE_UNSPECIFIED: _ClassVar[RolloutMode]
    ROLLOUT_MODE_EXPERIMENT: _ClassVar[RolloutMode]
    ROLLOUT_MODE_FULL: _ClassVar[RolloutMode]

class FlagPair(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLAG_PAIR_UNSPECIFIED: _ClassVar[FlagPair]
    FLAG_PAIR_NONE: _ClassVar[FlagPair]
    FLAG_PAIR_NAMED: _ClassVar[FlagPair]
    FLAG_PAIR_CREATED: _ClassVar[FlagPair]
    FLAG_PAIR_SWITCHED_ON: _ClassVar[FlagPair]
    FLAG_PAIR_RETIRED: _ClassVar[FlagPair]
    FLAG_PAIR_WITHDRAWN: _ClassVar[FlagPair]

class FlagValue(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLAG_VALUE_UNSPECIFIED: _ClassVar[FlagValue]
    FLAG_VALUE_ON: _ClassVar[FlagValue]
    FLAG_VALUE_OFF: _ClassVar[FlagValue]
    FLAG_VALUE_UNREACHABLE: _ClassVar[FlagValue]

class Trigger(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRIGGER_UNSPECIFIED: _ClassVar[Trigger]
    TRIGGER_GATE: _ClassVar[Trigger]
    TRIGGER_OPERATOR: _ClassVar[Trigger]
    TRIGGER_KILL_SWITCH: _ClassVar[Trigger]

class CleanupStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLEANUP_STEP_UNSPECIFIED: _ClassVar[CleanupStep]
    CLEANUP_STEP_ENTRY: _ClassVar[CleanupStep]
    CLEANUP_STEP_REFERENCES: _ClassVar[CleanupStep]
    CLEANUP_STEP_MODULES: _ClassVar[CleanupStep]
    CLEANUP_STEP_BLOCKS: _ClassVar[CleanupStep]
    CLEANUP_STEP_EVALS_AND_TOOLS: _ClassVar[CleanupStep]

class CleanupSubject(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLEANUP_SUBJECT_UNSPECIFIED: _ClassVar[CleanupSubject]
    CLEANUP_SUBJECT_EVALS: _ClassVar[CleanupSubject]
    CLEANUP_SUBJECT_TOOLS: _ClassVar[CleanupSubject]

class CleanupChoice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLEANUP_CHOICE_UNSPECIFIED: _ClassVar[CleanupChoice]
    CLEANUP_CHOICE_RETAIN: _ClassVar[CleanupChoice]
    CLEANUP_CHOICE_REMOVE: _ClassVar[CleanupChoice]

class CodeStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODE_STATUS_UNSPECIFIED: _ClassVar[CodeStatus]
    CODE_STATUS_GONE: _ClassVar[CodeStatus]
    CODE_STATUS_DEPRECATED: _ClassVar[CodeStatus]

class GateVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GATE_VERDICT_UNSPECIFIED: _ClassVar[GateVerdict]
    GATE_VERDICT_PASS: _ClassVar[GateVerdict]
    GATE_VERDICT_FAIL: _ClassVar[GateVerdict]
    GATE_VERDICT_PENDING: _ClassVar[GateVerdict]
    GATE_VERDICT_INCONCLUSIVE: _ClassVar[GateVerdict]
    GATE_VERDICT_UNAVAILABLE: _ClassVar[GateVerdict]

class DecommissionEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECOMMISSION_EVENT_KIND_UNSPECIFIED: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_BEGIN: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_ENTRY: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_REFERENCES: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_MODULES: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_BLOCKS: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_EVALS_AND_TOOLS: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_DECIDE: _ClassVar[DecommissionEventKind]
    DECOMMISSION_EVENT_KIND_UNDO: _ClassVar[DecommissionEventKind]

class RolloutEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLLOUT_EVENT_KIND_UNSPECIFIED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DEFINITION_SEEN: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DEFINITION_REVISED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_CONFIGURED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_RAMP_SET: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_RAMPED_DOWN: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_BREACH_ACKNOWLEDGED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_GATE_OVERRIDDEN: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_ACTIVATED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_SLOT_EMPTIED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_FLAGS_NAMED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_FLAGS_KEPT: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_FLAGS_CREATED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_FLAGS_ON: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_FLAGS_RETIRED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_FLAG_SWITCHED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_KILLED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DECOMMISSION_BEGUN: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DECOMMISSION_STEP: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DECOMMISSION_DECIDED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DECOMMISSION_UNDONE: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_REFUSED: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_HELD: _ClassVar[RolloutEventKind]
    ROLLOUT_EVENT_KIND_DECOMMISSION_OVERDUE: _ClassVar[RolloutEventKind]

class ActorRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTOR_ROLE_UNSPECIFIED: _ClassVar[ActorRole]
    ACTOR_ROLE_VIEWER: _ClassVar[ActorRole]
    ACTOR_ROLE_OPERATOR: _ClassVar[ActorRole]
    ACTOR_ROLE_AUTOMATION: _ClassVar[ActorRole]
    ACTOR_ROLE_BREAKER: _ClassVar[ActorRole]
LIFECYCLE_STATE_UNSPECIFIED: LifecycleState
LIFECYCLE_STATE_DEV: LifecycleState
LIFECYCLE_STATE_TEST: LifecycleState
LIFECYCLE_STATE_PROMOTE: LifecycleState
LIFECYCLE_STATE_ROLLBACK: LifecycleState
ROLLOUT_MODE_UNSPECIFIED: RolloutMode
ROLLOUT_MODE_EXPERIMENT: RolloutMode
ROLLOUT_MODE_FULL: RolloutMode
FLAG_PAIR_UNSPECIFIED: FlagPair
FLAG_PAIR_NONE: FlagPair
FLAG_PAIR_NAMED: FlagPair
FLAG_PAIR_CREATED: FlagPair
FLAG_PAIR_SWITCHED_ON: FlagPair
FLAG_PAIR_RETIRED: FlagPair
FLAG_PAIR_WITHDRAWN: FlagPair
FLAG_VALUE_UNSPECIFIED: FlagValue
FLAG_VALUE_ON: FlagValue
FLAG_VALUE_OFF: FlagValue
FLAG_VALUE_UNREACHABLE: FlagValue
TRIGGER_UNSPECIFIED: Trigger
TRIGGER_GATE: Trigger
TRIGGER_OPERATOR: Trigger
TRIGGER_KILL_SWITCH: Trigger
CLEANUP_STEP_UNSPECIFIED: CleanupStep
CLEANUP_STEP_ENTRY: CleanupStep
CLEANUP_STEP_REFERENCES: CleanupStep
CLEANUP_STEP_MODULES: CleanupStep
CLEANUP_STEP_BLOCKS: CleanupStep
CLEANUP_STEP_EVALS_AND_TOOLS: CleanupStep
CLEANUP_SUBJECT_UNSPECIFIED: CleanupSubject
CLEANUP_SUBJECT_EVALS: CleanupSubject
CLEANUP_SUBJECT_TOOLS: CleanupSubject
CLEANUP_CHOICE_UNSPECIFIED: CleanupChoice
CLEANUP_CHOICE_RETAIN: CleanupChoice
CLEANUP_CHOICE_REMOVE: CleanupChoice
CODE_STATUS_UNSPECIFIED: CodeStatus
CODE_STATUS_GONE: CodeStatus
CODE_STATUS_DEPRECATED: CodeStatus
GATE_VERDICT_UNSPECIFIED: GateVerdict
GATE_VERDICT_PASS: GateVerdict
GATE_VERDICT_FAIL: GateVerdict
GATE_VERDICT_PENDING: GateVerdict
GATE_VERDICT_INCONCLUSIVE: GateVerdict
GATE_VERDICT_UNAVAILABLE: GateVerdict
DECOMMISSION_EVENT_KIND_UNSPECIFIED: DecommissionEventKind
DECOMMISSION_EVENT_KIND_BEGIN: DecommissionEventKind
DECOMMISSION_EVENT_KIND_ENTRY: DecommissionEventKind
DECOMMISSION_EVENT_KIND_REFERENCES: DecommissionEventKind
DECOMMISSION_EVENT_KIND_MODULES: DecommissionEventKind
DECOMMISSION_EVENT_KIND_BLOCKS: DecommissionEventKind
DECOMMISSION_EVENT_KIND_EVALS_AND_TOOLS: DecommissionEventKind
DECOMMISSION_EVENT_KIND_DECIDE: DecommissionEventKind
DECOMMISSION_EVENT_KIND_UNDO: DecommissionEventKind
ROLLOUT_EVENT_KIND_UNSPECIFIED: RolloutEventKind
ROLLOUT_EVENT_KIND_DEFINITION_SEEN: RolloutEventKind
ROLLOUT_EVENT_KIND_DEFINITION_REVISED: RolloutEventKind
ROLLOUT_EVENT_KIND_CONFIGURED: RolloutEventKind
ROLLOUT_EVENT_KIND_RAMP_SET: RolloutEventKind
ROLLOUT_EVENT_KIND_RAMPED_DOWN: RolloutEventKind
ROLLOUT_EVENT_KIND_BREACH_ACKNOWLEDGED: RolloutEventKind
ROLLOUT_EVENT_KIND_GATE_OVERRIDDEN: RolloutEventKind
ROLLOUT_EVENT_KIND_ACTIVATED: RolloutEventKind
ROLLOUT_EVENT_KIND_SLOT_EMPTIED: RolloutEventKind
ROLLOUT_EVENT_KIND_FLAGS_NAMED: RolloutEventKind
ROLLOUT_EVENT_KIND_FLAGS_KEPT: RolloutEventKind
ROLLOUT_EVENT_KIND_FLAGS_CREATED: RolloutEventKind
ROLLOUT_EVENT_KIND_FLAGS_ON: RolloutEventKind
ROLLOUT_EVENT_KIND_FLAGS_RETIRED: RolloutEventKind
ROLLOUT_EVENT_KIND_FLAG_SWITCHED: RolloutEventKind
ROLLOUT_EVENT_KIND_KILLED: RolloutEventKind
ROLLOUT_EVENT_KIND_DECOMMISSION_BEGUN: RolloutEventKind
ROLLOUT_EVENT_KIND_DECOMMISSION_STEP: RolloutEventKind
ROLLOUT_EVENT_KIND_DECOMMISSION_DECIDED: RolloutEventKind
ROLLOUT_EVENT_KIND_DECOMMISSION_UNDONE: RolloutEventKind
ROLLOUT_EVENT_KIND_REFUSED: RolloutEventKind
ROLLOUT_EVENT_KIND_HELD: RolloutEventKind
ROLLOUT_EVENT_KIND_DECOMMISSION_OVERDUE: RolloutEventKind
ACTOR_ROLE_UNSPECIFIED: ActorRole
ACTOR_ROLE_VIEWER: ActorRole
ACTOR_ROLE_OPERATOR: ActorRole
ACTOR_ROLE_AUTOMATION: ActorRole
ACTOR_ROLE_BREAKER: ActorRole

class GateAnswer(_message.Message):
    __slots__ = ("gate", "verdict", "summary", "overridden")
    GATE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    OVERRIDDEN_FIELD_NUMBER: _ClassVar[int]
    gate: str
    verdict: GateVerdict
    summary: str
    overridden: bool
    def __init__(self, gate: _Optional[str] = ..., verdict: _Optional[_Union[GateVerdict, str]] = ..., summary: _Optional[str] = ..., overridden: _Optional[bool] = ...) -> None: ...

class FlagStatus(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: FlagValue
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[FlagValue, str]] = ...) -> None: ...

class Tombstone(_message.Message):
    __slots__ = ("killed_at", "killed_by", "reason")
    KILLED_AT_FIELD_NUMBER: _ClassVar[int]
    KILLED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    killed_at: _timestamp_pb2.Timestamp
    killed_by: str
    reason: str
    def __init__(self, killed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., killed_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Breach(_message.Message):
    __slots__ = ("breach_id", "breached_at", "reason", "acknowledged_by")
    BREACH_ID_FIELD_NUMBER: _ClassVar[int]
    BREACHED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_BY_FIELD_NUMBER: _ClassVar[int]
    breach_id: str
    breached_at: _timestamp_pb2.Timestamp
    reason: str
    acknowledged_by: str
    def __init__(self, breach_id: _Optional[str] = ..., breached_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., acknowledged_by: _Optional[str] = ...) -> None: ...

class Override(_message.Message):
    __slots__ = ("gate", "from_basis_points", "to_basis_points", "overridden_by", "reason", "expires_at")
    GATE_FIELD_NUMBER: _ClassVar[int]
    FROM_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    TO_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    OVERRIDDEN_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    gate: str
    from_basis_points: int
    to_basis_points: int
    overridden_by: str
    reason: str
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, gate: _Optional[str] = ..., from_basis_points: _Optional[int] = ..., to_basis_points: _Optional[int] = ..., overridden_by: _Optional[str] = ..., reason: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CleanupStepTaken(_message.Message):
    __slots__ = ("step", "taken_at", "taken_by", "reason", "confirmed", "agent_definition_version", "code")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    AGENT_DEFINITION_VERSION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    step: CleanupStep
    taken_at: _timestamp_pb2.Timestamp
    taken_by: str
    reason: str
    confirmed: str
    agent_definition_version: str
    code: CodeStatus
    def __init__(self, step: _Optional[_Union[CleanupStep, str]] = ..., taken_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., taken_by: _Optional[str] = ..., reason: _Optional[str] = ..., confirmed: _Optional[str] = ..., agent_definition_version: _Optional[str] = ..., code: _Optional[_Union[CodeStatus, str]] = ...) -> None: ...

class CleanupDecision(_message.Message):
    __slots__ = ("choice", "decided_at", "decided_by", "reason")
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    choice: CleanupChoice
    decided_at: _timestamp_pb2.Timestamp
    decided_by: str
    reason: str
    def __init__(self, choice: _Optional[_Union[CleanupChoice, str]] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decided_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Decommission(_message.Message):
    __slots__ = ("started_at", "due_at", "started_by", "reason", "steps", "next_step", "evals", "tools", "finished_at")
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DUE_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    EVALS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    started_at: _timestamp_pb2.Timestamp
    due_at: _timestamp_pb2.Timestamp
    started_by: str
    reason: str
    steps: _containers.RepeatedCompositeFieldContainer[CleanupStepTaken]
    next_step: CleanupStep
    evals: CleanupDecision
    tools: CleanupDecision
    finished_at: _timestamp_pb2.Timestamp
    def __init__(self, started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., started_by: _Optional[str] = ..., reason: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[CleanupStepTaken, _Mapping]]] = ..., next_step: _Optional[_Union[CleanupStep, str]] = ..., evals: _Optional[_Union[CleanupDecision, _Mapping]] = ..., tools: _Optional[_Union[CleanupDecision, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DefinitionStatus(_message.Message):
    __slots__ = ("digest", "definition_id", "commit", "vertical", "state", "active", "ramp_basis_points", "activated_at", "flag_pair", "flags", "flag_backend", "killed", "breach", "target_digest", "target_recorded", "overrides", "last_gate_answers", "gates_answered_at", "pinned_turns", "in_configuration", "deprecated", "drifts", "decommission_started_at", "decommission", "decommission_overdue")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    VERTICAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATED_AT_FIELD_NUMBER: _ClassVar[int]
    FLAG_PAIR_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    FLAG_BACKEND_FIELD_NUMBER: _ClassVar[int]
    KILLED_FIELD_NUMBER: _ClassVar[int]
    BREACH_FIELD_NUMBER: _ClassVar[int]
    TARGET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TARGET_RECORDED_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    LAST_GATE_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    GATES_ANSWERED_AT_FIELD_NUMBER: _ClassVar[int]
    PINNED_TURNS_FIELD_NUMBER: _ClassVar[int]
    IN_CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    DEPRECATED_FIELD_NUMBER: _ClassVar[int]
    DRIFTS_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSION_STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSION_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSION_OVERDUE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    definition_id: str
    commit: str
    vertical: str
    state: LifecycleState
    active: bool
    ramp_basis_points: int
    activated_at: _timestamp_pb2.Timestamp
    flag_pair: FlagPair
    flags: _containers.RepeatedCompositeFieldContainer[FlagStatus]
    flag_backend: str
    killed: Tombstone
    breach: Breach
    target_digest: str
    target_recorded: bool
    overrides: _containers.RepeatedCompositeFieldContainer[Override]
    last_gate_answers: _containers.RepeatedCompositeFieldContainer[GateAnswer]
    gates_answered_at: _timestamp_pb2.Timestamp
    pinned_turns: int
    in_configuration: bool
    deprecated: bool
    drifts: _containers.RepeatedScalarFieldContainer[str]
    decommission_started_at: _timestamp_pb2.Timestamp
    decommission: Decommission
    decommission_overdue: bool
    def __init__(self, digest: _Optional[str] = ..., definition_id: _Optional[str] = ..., commit: _Optional[str] = ..., vertical: _Optional[str] = ..., state: _Optional[_Union[LifecycleState, str]] = ..., active: _Optional[bool] = ..., ramp_basis_points: _Optional[int] = ..., activated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., flag_pair: _Optional[_Union[FlagPair, str]] = ..., flags: _Optional[_Iterable[_Union[FlagStatus, _Mapping]]] = ..., flag_backend: _Optional[str] = ..., killed: _Optional[_Union[Tombstone, _Mapping]] = ..., breach: _Optional[_Union[Breach, _Mapping]] = ..., target_digest: _Optional[str] = ..., target_recorded: _Optional[bool] = ..., overrides: _Optional[_Iterable[_Union[Override, _Mapping]]] = ..., last_gate_answers: _Optional[_Iterable[_Union[GateAnswer, _Mapping]]] = ..., gates_answered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pinned_turns: _Optional[int] = ..., in_configuration: _Optional[bool] = ..., deprecated: _Optional[bool] = ..., drifts: _Optional[_Iterable[str]] = ..., decommission_started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decommission: _Optional[_Union[Decommission, _Mapping]] = ..., decommission_overdue: _Optional[bool] = ...) -> None: ...

class SlotStatus(_message.Message):
    __slots__ = ("slot", "revision", "active_digest", "mode", "curve_basis_points", "definitions")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CURVE_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    revision: int
    active_digest: str
    mode: RolloutMode
    curve_basis_points: _containers.RepeatedScalarFieldContainer[int]
    definitions: _containers.RepeatedCompositeFieldContainer[DefinitionStatus]
    def __init__(self, slot: _Optional[str] = ..., revision: _Optional[int] = ..., active_digest: _Optional[str] = ..., mode: _Optional[_Union[RolloutMode, str]] = ..., curve_basis_points: _Optional[_Iterable[int]] = ..., definitions: _Optional[_Iterable[_Union[DefinitionStatus, _Mapping]]] = ...) -> None: ...

class BackendStatus(_message.Message):
    __slots__ = ("name", "fresh", "age")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    fresh: bool
    age: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., fresh: _Optional[bool] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetRolloutRequest(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class GetRolloutResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: SlotStatus
    def __init__(self, status: _Optional[_Union[SlotStatus, _Mapping]] = ...) -> None: ...

class ListRolloutsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "or_replica_view")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OR_REPLICA_VIEW_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    or_replica_view: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., or_replica_view: _Optional[bool] = ...) -> None: ...

class ListRolloutsResponse(_message.Message):
    __slots__ = ("slots", "backends", "rollout_version", "next_page_token", "replica_view")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLICA_VIEW_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedCompositeFieldContainer[SlotStatus]
    backends: _containers.RepeatedCompositeFieldContainer[BackendStatus]
    rollout_version: int
    next_page_token: str
    replica_view: bool
    def __init__(self, slots: _Optional[_Iterable[_Union[SlotStatus, _Mapping]]] = ..., backends: _Optional[_Iterable[_Union[BackendStatus, _Mapping]]] = ..., rollout_version: _Optional[int] = ..., next_page_token: _Optional[str] = ..., replica_view: _Optional[bool] = ...) -> None: ...

class ExplainServingRequest(_message.Message):
    __slots__ = ("slot", "principal", "experiment_arm", "at")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_ARM_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    principal: str
    experiment_arm: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, slot: _Optional[str] = ..., principal: _Optional[str] = ..., experiment_arm: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DefinitionVerdict(_message.Message):
    __slots__ = ("digest", "definition_id", "verdict", "state", "ramp_basis_points", "flags", "killed", "explanation")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    KILLED_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    digest: str
    definition_id: str
    verdict: _surface_pb2.CandidateVerdict
    state: LifecycleState
    ramp_basis_points: int
    flags: _containers.RepeatedCompositeFieldContainer[FlagStatus]
    killed: bool
    explanation: str
    def __init__(self, digest: _Optional[str] = ..., definition_id: _Optional[str] = ..., verdict: _Optional[_Union[_surface_pb2.CandidateVerdict, str]] = ..., state: _Optional[_Union[LifecycleState, str]] = ..., ramp_basis_points: _Optional[int] = ..., flags: _Optional[_Iterable[_Union[FlagStatus, _Mapping]]] = ..., killed: _Optional[bool] = ..., explanation: _Optional[str] = ...) -> None: ...

class ExplainServingResponse(_message.Message):
    __slots__ = ("slot", "served_digest", "key", "salt", "bucketing", "bucket", "verdicts", "at", "assumptions")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SERVED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    BUCKETING_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ASSUMPTIONS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    served_digest: str
    key: str
    salt: str
    bucketing: str
    bucket: int
    verdicts: _containers.RepeatedCompositeFieldContainer[DefinitionVerdict]
    at: _timestamp_pb2.Timestamp
    assumptions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slot: _Optional[str] = ..., served_digest: _Optional[str] = ..., key: _Optional[str] = ..., salt: _Optional[str] = ..., bucketing: _Optional[str] = ..., bucket: _Optional[int] = ..., verdicts: _Optional[_Iterable[_Union[DefinitionVerdict, _Mapping]]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., assumptions: _Optional[_Iterable[str]] = ...) -> None: ...

class PreviewRampRequest(_message.Message):
    __slots__ = ("slot", "digest", "ramp_basis_points")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    digest: str
    ramp_basis_points: int
    def __init__(self, slot: _Optional[str] = ..., digest: _Optional[str] = ..., ramp_basis_points: _Optional[int] = ...) -> None: ...

class PreviewRampResponse(_message.Message):
    __slots__ = ("from_basis_points", "to_basis_points", "known", "inside", "joining", "leaving", "gates", "definition_id", "digest")
    FROM_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    TO_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    INSIDE_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    GATES_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    from_basis_points: int
    to_basis_points: int
    known: int
    inside: int
    joining: int
    leaving: int
    gates: _containers.RepeatedScalarFieldContainer[str]
    definition_id: str
    digest: str
    def __init__(self, from_basis_points: _Optional[int] = ..., to_basis_points: _Optional[int] = ..., known: _Optional[int] = ..., inside: _Optional[int] = ..., joining: _Optional[int] = ..., leaving: _Optional[int] = ..., gates: _Optional[_Iterable[str]] = ..., definition_id: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class AuditCohort(_message.Message):
    __slots__ = ("agent_definition_version", "active_flags", "ramp_step_percent")
    AGENT_DEFINITION_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FLAGS_FIELD_NUMBER: _ClassVar[int]
    RAMP_STEP_PERCENT_FIELD_NUMBER: _ClassVar[int]
    agent_definition_version: str
    active_flags: _containers.RepeatedScalarFieldContainer[str]
    ramp_step_percent: float
    def __init__(self, agent_definition_version: _Optional[str] = ..., active_flags: _Optional[_Iterable[str]] = ..., ramp_step_percent: _Optional[float] = ...) -> None: ...

class TransitionRow(_message.Message):
    __slots__ = ("definition_id", "source_state", "target_state", "trigger", "agent_definition_commit", "cohort", "effective_at")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_STATE_FIELD_NUMBER: _ClassVar[int]
    TARGET_STATE_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    AGENT_DEFINITION_COMMIT_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_AT_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    source_state: LifecycleState
    target_state: LifecycleState
    trigger: Trigger
    agent_definition_commit: str
    cohort: AuditCohort
    effective_at: _timestamp_pb2.Timestamp
    def __init__(self, definition_id: _Optional[str] = ..., source_state: _Optional[_Union[LifecycleState, str]] = ..., target_state: _Optional[_Union[LifecycleState, str]] = ..., trigger: _Optional[_Union[Trigger, str]] = ..., agent_definition_commit: _Optional[str] = ..., cohort: _Optional[_Union[AuditCohort, _Mapping]] = ..., effective_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class DecommissionRow(_message.Message):
    __slots__ = ("definition_id", "kind", "source_state", "target_state", "trigger", "agent_definition_commit", "cohort", "detail")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SOURCE_STATE_FIELD_NUMBER: _ClassVar[int]
    TARGET_STATE_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    AGENT_DEFINITION_COMMIT_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    kind: DecommissionEventKind
    source_state: LifecycleState
    target_state: LifecycleState
    trigger: Trigger
    agent_definition_commit: str
    cohort: AuditCohort
    detail: str
    def __init__(self, definition_id: _Optional[str] = ..., kind: _Optional[_Union[DecommissionEventKind, str]] = ..., source_state: _Optional[_Union[LifecycleState, str]] = ..., target_state: _Optional[_Union[LifecycleState, str]] = ..., trigger: _Optional[_Union[Trigger, str]] = ..., agent_definition_commit: _Optional[str] = ..., cohort: _Optional[_Union[AuditCohort, _Mapping]] = ..., detail: _Optional[str] = ...) -> None: ...

class RolloutRow(_message.Message):
    __slots__ = ("definition_id", "kind", "before_basis_points", "after_basis_points", "detail")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BEFORE_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    AFTER_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    kind: RolloutEventKind
    before_basis_points: int
    after_basis_points: int
    detail: str
    def __init__(self, definition_id: _Optional[str] = ..., kind: _Optional[_Union[RolloutEventKind, str]] = ..., before_basis_points: _Optional[int] = ..., after_basis_points: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class AuditRow(_message.Message):
    __slots__ = ("sequence", "slot", "digest", "requested_at", "actor", "reason", "request_id", "actor_key", "actor_role", "transition", "rollout", "decommission")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ACTOR_KEY_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ROLE_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSION_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    slot: str
    digest: str
    requested_at: _timestamp_pb2.Timestamp
    actor: str
    reason: str
    request_id: str
    actor_key: str
    actor_role: ActorRole
    transition: TransitionRow
    rollout: RolloutRow
    decommission: DecommissionRow
    def __init__(self, sequence: _Optional[int] = ..., slot: _Optional[str] = ..., digest: _Optional[str] = ..., requested_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., actor_key: _Optional[str] = ..., actor_role: _Optional[_Union[ActorRole, str]] = ..., transition: _Optional[_Union[TransitionRow, _Mapping]] = ..., rollout: _Optional[_Union[RolloutRow, _Mapping]] = ..., decommission: _Optional[_Union[DecommissionRow, _Mapping]] = ...) -> None: ...

class WatchAuditRequest(_message.Message):
    __slots__ = ("after_sequence", "slot", "definition_id", "no_follow")
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    NO_FOLLOW_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    slot: str
    definition_id: str
    no_follow: bool
    def __init__(self, after_sequence: _Optional[int] = ..., slot: _Optional[str] = ..., definition_id: _Optional[str] = ..., no_follow: _Optional[bool] = ...) -> None: ...

class WatchAuditResponse(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[AuditRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[AuditRow, _Mapping]]] = ...) -> None: ...

class ListReplicasRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListReplicasResponse(_message.Message):
    __slots__ = ("replicas", "rollout_version", "next_page_token")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    rollout_version: int
    next_page_token: str
    def __init__(self, replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ..., rollout_version: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("instance_id", "rollout_version", "seen_at", "alive")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    rollout_version: int
    seen_at: _timestamp_pb2.Timestamp
    alive: bool
    def __init__(self, instance_id: _Optional[str] = ..., rollout_version: _Optional[int] = ..., seen_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., alive: _Optional[bool] = ...) -> None: ...

class ListDecommissionsRequest(_message.Message):
    __slots__ = ("include_finished", "page_size", "page_token")
    INCLUDE_FINISHED_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    include_finished: bool
    page_size: int
    page_token: str
    def __init__(self, include_finished: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDecommissionsResponse(_message.Message):
    __slots__ = ("decommissions", "next_page_token")
    DECOMMISSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    decommissions: _containers.RepeatedCompositeFieldContainer[DecommissionStatus]
    next_page_token: str
    def __init__(self, decommissions: _Optional[_Iterable[_Union[DecommissionStatus, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DecommissionStatus(_message.Message):
    __slots__ = ("slot", "revision", "definition_id", "digest", "vertical", "decommission", "overdue", "remaining", "prompt_blocks", "tools", "pinned_turns")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERTICAL_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSION_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    PROMPT_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    PINNED_TURNS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    revision: int
    definition_id: str
    digest: str
    vertical: str
    decommission: Decommission
    overdue: bool
    remaining: _containers.RepeatedScalarFieldContainer[str]
    prompt_blocks: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    pinned_turns: int
    def __init__(self, slot: _Optional[str] = ..., revision: _Optional[int] = ..., definition_id: _Optional[str] = ..., digest: _Optional[str] = ..., vertical: _Optional[str] = ..., decommission: _Optional[_Union[Decommission, _Mapping]] = ..., overdue: _Optional[bool] = ..., remaining: _Optional[_Iterable[str]] = ..., prompt_blocks: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ..., pinned_turns: _Optional[int] = ...) -> None: ...
