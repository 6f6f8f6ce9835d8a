import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import outcome_pb2 as _outcome_pb2
from subagents.dispatch.v1 import question_pb2 as _question_pb2
from subagents.dispatch.v1 import routing_pb2 as _routing_pb2
from subagents.dispatch.v1 import surface_pb2 as _surface_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StartState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    START_STATE_UNSPECIFIED: _ClassVar[StartState]
    START_STATE_STARTED: _ClassVar[StartState]
    START_STATE_ATTACHED: _ClassVar[StartState]

class TurnSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_SOURCE_UNSPECIFIED: _ClassVar[TurnSource]
    TURN_SOURCE_CHAT: _ClassVar[TurnSource]
    TURN_SOURCE_SCHEDULED: _ClassVar[TurnSource]
    TURN_SOURCE_NOTIFICATION: _ClassVar[TurnSource]

class CompactionDue(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPACTION_DUE_UNSPECIFIED: _ClassVar[CompactionDue]
    COMPACTION_DUE_DUE: _ClassVar[CompactionDue]
    COMPACTION_DUE_NOT_DUE: _ClassVar[CompactionDue]
    COMPACTION_DUE_UNKNOWN: _ClassVar[CompactionDue]

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DISCONNECT_UNSPECIFIED: _ClassVar[OnDisconnect]
    ON_DISCONNECT_CANCEL: _ClassVar[OnDisconnect]
    ON_DISCONNECT_CONTINUE: _ClassVar[OnDisconnect]
    ON_DISCONNECT_CONTINUE_UNTIL: _ClassVar[OnDisconnect]

class CallState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALL_STATE_UNSPECIFIED: _ClassVar[CallState]
    CALL_STATE_WAITING: _ClassVar[CallState]
    CALL_STATE_RUNNING: _ClassVar[CallState]
    CALL_STATE_SETTLED: _ClassVar[CallState]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_ACCEPTED: _ClassVar[Verdict]
    VERDICT_REJECTED: _ClassVar[Verdict]

class SessionDrainReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_DRAIN_REASON_UNSPECIFIED: _ClassVar[SessionDrainReason]
    SESSION_DRAIN_REASON_AGE: _ClassVar[SessionDrainReason]
    SESSION_DRAIN_REASON_STOPPING: _ClassVar[SessionDrainReason]
START_STATE_UNSPECIFIED: StartState
START_STATE_STARTED: StartState
START_STATE_ATTACHED: StartState
TURN_SOURCE_UNSPECIFIED: TurnSource
TURN_SOURCE_CHAT: TurnSource
TURN_SOURCE_SCHEDULED: TurnSource
TURN_SOURCE_NOTIFICATION: TurnSource
COMPACTION_DUE_UNSPECIFIED: CompactionDue
COMPACTION_DUE_DUE: CompactionDue
COMPACTION_DUE_NOT_DUE: CompactionDue
COMPACTION_DUE_UNKNOWN: CompactionDue
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
ON_DISCONNECT_CANCEL: OnDisconnect
ON_DISCONNECT_CONTINUE: OnDisconnect
ON_DISCONNECT_CONTINUE_UNTIL: OnDisconnect
CALL_STATE_UNSPECIFIED: CallState
CALL_STATE_WAITING: CallState
CALL_STATE_RUNNING: CallState
CALL_STATE_SETTLED: CallState
VERDICT_UNSPECIFIED: Verdict
VERDICT_ACCEPTED: Verdict
VERDICT_REJECTED: Verdict
SESSION_DRAIN_REASON_UNSPECIFIED: SessionDrainReason
SESSION_DRAIN_REASON_AGE: SessionDrainReason
SESSION_DRAIN_REASON_STOPPING: SessionDrainReason

class BindTurnRequest(_message.Message):
    __slots__ = ("turn_id", "episode_id", "principal", "source", "orchestrator_id", "locale", "location", "experiment_arm", "date", "required_features", "user_token")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ORCHESTRATOR_ID_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_ARM_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FEATURES_FIELD_NUMBER: _ClassVar[int]
    USER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    episode_id: str
    principal: str
    source: TurnSource
    orchestrator_id: str
    locale: str
    location: str
    experiment_arm: str
    date: str
    required_features: _containers.RepeatedScalarFieldContainer[str]
    user_token: str
    def __init__(self, turn_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., source: _Optional[_Union[TurnSource, str]] = ..., orchestrator_id: _Optional[str] = ..., locale: _Optional[str] = ..., location: _Optional[str] = ..., experiment_arm: _Optional[str] = ..., date: _Optional[str] = ..., required_features: _Optional[_Iterable[str]] = ..., user_token: _Optional[str] = ...) -> None: ...

class BindTurnResponse(_message.Message):
    __slots__ = ("surface", "surface_token", "expires_at", "state", "compaction_due", "contract")
    SURFACE_FIELD_NUMBER: _ClassVar[int]
    SURFACE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COMPACTION_DUE_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    surface: _surface_pb2.Surface
    surface_token: str
    expires_at: _timestamp_pb2.Timestamp
    state: StartState
    compaction_due: CompactionDue
    contract: Contract
    def __init__(self, surface: _Optional[_Union[_surface_pb2.Surface, _Mapping]] = ..., surface_token: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[StartState, str]] = ..., compaction_due: _Optional[_Union[CompactionDue, str]] = ..., contract: _Optional[_Union[Contract, _Mapping]] = ...) -> None: ...

class Contract(_message.Message):
    __slots__ = ("version", "features", "session_deadline")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SESSION_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    version: int
    features: _containers.RepeatedScalarFieldContainer[str]
    session_deadline: _duration_pb2.Duration
    def __init__(self, version: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., session_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("call_id", "tool_name", "arguments_json", "answering")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERING_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_name: str
    arguments_json: str
    answering: _question_pb2.Answering
    def __init__(self, call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., answering: _Optional[_Union[_question_pb2.Answering, _Mapping]] = ...) -> None: ...

class DispatchRequest(_message.Message):
    __slots__ = ("surface_token", "binding_digest", "dispatch_id", "calls", "declared_intent_count", "prior_context", "task_prompt", "on_disconnect", "continue_for", "join")
    SURFACE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    BINDING_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    DECLARED_INTENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    PRIOR_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TASK_PROMPT_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    CONTINUE_FOR_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    surface_token: str
    binding_digest: str
    dispatch_id: str
    calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    declared_intent_count: int
    prior_context: str
    task_prompt: str
    on_disconnect: OnDisconnect
    continue_for: _duration_pb2.Duration
    join: JoinPolicy
    def __init__(self, surface_token: _Optional[str] = ..., binding_digest: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., declared_intent_count: _Optional[int] = ..., prior_context: _Optional[str] = ..., task_prompt: _Optional[str] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., continue_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., join: _Optional[_Union[JoinPolicy, _Mapping]] = ...) -> None: ...

class JoinPolicy(_message.Message):
    __slots__ = ("min_success", "max_parallel", "timeout")
    MIN_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    min_success: int
    max_parallel: int
    timeout: _duration_pb2.Duration
    def __init__(self, min_success: _Optional[int] = ..., max_parallel: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DispatchResponse(_message.Message):
    __slots__ = ("frame",)
    FRAME_FIELD_NUMBER: _ClassVar[int]
    frame: DispatchFrame
    def __init__(self, frame: _Optional[_Union[DispatchFrame, _Mapping]] = ...) -> None: ...

class DispatchFrame(_message.Message):
    __slots__ = ("snapshot", "events", "result")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    snapshot: DispatchSnapshot
    events: _containers.RepeatedCompositeFieldContainer[DispatchEvent]
    result: DispatchResult
    def __init__(self, snapshot: _Optional[_Union[DispatchSnapshot, _Mapping]] = ..., events: _Optional[_Iterable[_Union[DispatchEvent, _Mapping]]] = ..., result: _Optional[_Union[DispatchResult, _Mapping]] = ...) -> None: ...

class DispatchSnapshot(_message.Message):
    __slots__ = ("dispatch_id", "state", "sequence", "calls")
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    dispatch_id: str
    state: StartState
    sequence: int
    calls: _containers.RepeatedCompositeFieldContainer[CallSnapshot]
    def __init__(self, dispatch_id: _Optional[str] = ..., state: _Optional[_Union[StartState, str]] = ..., sequence: _Optional[int] = ..., calls: _Optional[_Iterable[_Union[CallSnapshot, _Mapping]]] = ...) -> None: ...

class CallSnapshot(_message.Message):
    __slots__ = ("call_id", "sub_agent_id", "child_id", "state")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    sub_agent_id: str
    child_id: str
    state: CallState
    def __init__(self, call_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., child_id: _Optional[str] = ..., state: _Optional[_Union[CallState, str]] = ...) -> None: ...

class DispatchEvent(_message.Message):
    __slots__ = ("sequence", "occurred_at", "call_id", "state_changed", "status", "gap")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    occurred_at: _timestamp_pb2.Timestamp
    call_id: str
    state_changed: CallStateChanged
    status: StatusUpdate
    gap: Gap
    def __init__(self, sequence: _Optional[int] = ..., occurred_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., call_id: _Optional[str] = ..., state_changed: _Optional[_Union[CallStateChanged, _Mapping]] = ..., status: _Optional[_Union[StatusUpdate, _Mapping]] = ..., gap: _Optional[_Union[Gap, _Mapping]] = ...) -> None: ...

class CallStateChanged(_message.Message):
    __slots__ = ("state", "outcome")
    STATE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    state: CallState
    outcome: _outcome_pb2.CallOutcome
    def __init__(self, state: _Optional[_Union[CallState, str]] = ..., outcome: _Optional[_Union[_outcome_pb2.CallOutcome, _Mapping]] = ...) -> None: ...

class StatusUpdate(_message.Message):
    __slots__ = ("type", "sub_agent_ids", "count", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    type: str
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    count: int
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, type: _Optional[str] = ..., sub_agent_ids: _Optional[_Iterable[str]] = ..., count: _Optional[int] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("from_sequence", "to_sequence")
    FROM_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TO_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    from_sequence: int
    to_sequence: int
    def __init__(self, from_sequence: _Optional[int] = ..., to_sequence: _Optional[int] = ...) -> None: ...

class DispatchResult(_message.Message):
    __slots__ = ("outcomes", "intents", "cap", "overhead")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[_outcome_pb2.CallOutcome]
    intents: _outcome_pb2.IntentReport
    cap: _outcome_pb2.CapBehaviour
    overhead: _duration_pb2.Duration
    def __init__(self, outcomes: _Optional[_Iterable[_Union[_outcome_pb2.CallOutcome, _Mapping]]] = ..., intents: _Optional[_Union[_outcome_pb2.IntentReport, _Mapping]] = ..., cap: _Optional[_Union[_outcome_pb2.CapBehaviour, str]] = ..., overhead: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DispatchUnaryRequest(_message.Message):
    __slots__ = ("dispatch",)
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    dispatch: DispatchRequest
    def __init__(self, dispatch: _Optional[_Union[DispatchRequest, _Mapping]] = ...) -> None: ...

class DispatchUnaryResponse(_message.Message):
    __slots__ = ("state", "result")
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    state: StartState
    result: DispatchResult
    def __init__(self, state: _Optional[_Union[StartState, str]] = ..., result: _Optional[_Union[DispatchResult, _Mapping]] = ...) -> None: ...

class ResumeDispatchRequest(_message.Message):
    __slots__ = ("surface_token", "dispatch_id", "after_sequence")
    SURFACE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    surface_token: str
    dispatch_id: str
    after_sequence: int
    def __init__(self, surface_token: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class ResumeDispatchResponse(_message.Message):
    __slots__ = ("frame",)
    FRAME_FIELD_NUMBER: _ClassVar[int]
    frame: DispatchFrame
    def __init__(self, frame: _Optional[_Union[DispatchFrame, _Mapping]] = ...) -> None: ...

class CancelCallRequest(_message.Message):
    __slots__ = ("surface_token", "dispatch_id", "call_id")
    SURFACE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    surface_token: str
    dispatch_id: str
    call_id: str
    def __init__(self, surface_token: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class CancelCallResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    def __init__(self, cancelled: _Optional[bool] = ...) -> None: ...

class CloseChildRequest(_message.Message):
    __slots__ = ("surface_token", "child_id", "verdict", "reason")
    SURFACE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    surface_token: str
    child_id: str
    verdict: Verdict
    reason: str
    def __init__(self, surface_token: _Optional[str] = ..., child_id: _Optional[str] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class CloseChildResponse(_message.Message):
    __slots__ = ("child",)
    CHILD_FIELD_NUMBER: _ClassVar[int]
    child: ChildSummary
    def __init__(self, child: _Optional[_Union[ChildSummary, _Mapping]] = ...) -> None: ...

class Integration(_message.Message):
    __slots__ = ("child_id", "verdict", "reason")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    verdict: Verdict
    reason: str
    def __init__(self, child_id: _Optional[str] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class EndTurnRequest(_message.Message):
    __slots__ = ("surface_token", "integrations", "narration", "declared_intent_count", "user_message")
    SURFACE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INTEGRATIONS_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    DECLARED_INTENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    surface_token: str
    integrations: _containers.RepeatedCompositeFieldContainer[Integration]
    narration: str
    declared_intent_count: int
    user_message: str
    def __init__(self, surface_token: _Optional[str] = ..., integrations: _Optional[_Iterable[_Union[Integration, _Mapping]]] = ..., narration: _Optional[str] = ..., declared_intent_count: _Optional[int] = ..., user_message: _Optional[str] = ...) -> None: ...

class EndTurnResponse(_message.Message):
    __slots__ = ("state", "children", "gate_passed", "routing_decision")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    GATE_PASSED_FIELD_NUMBER: _ClassVar[int]
    ROUTING_DECISION_FIELD_NUMBER: _ClassVar[int]
    state: StartState
    children: _containers.RepeatedCompositeFieldContainer[ChildSummary]
    gate_passed: bool
    routing_decision: _routing_pb2.RoutingDecision
    def __init__(self, state: _Optional[_Union[StartState, str]] = ..., children: _Optional[_Iterable[_Union[ChildSummary, _Mapping]]] = ..., gate_passed: _Optional[bool] = ..., routing_decision: _Optional[_Union[_routing_pb2.RoutingDecision, _Mapping]] = ...) -> None: ...

class ChildSummary(_message.Message):
    __slots__ = ("child_id", "sub_agent_id", "emission_index", "final_status", "close_reason")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    EMISSION_INDEX_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATUS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_REASON_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    sub_agent_id: str
    emission_index: int
    final_status: _outcome_pb2.FinalStatus
    close_reason: _outcome_pb2.ChildCloseReason
    def __init__(self, child_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., emission_index: _Optional[int] = ..., final_status: _Optional[_Union[_outcome_pb2.FinalStatus, str]] = ..., close_reason: _Optional[_Union[_outcome_pb2.ChildCloseReason, str]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ("hello", "operations", "credits", "abandons", "heartbeat")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    ABANDONS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    hello: SessionClientHello
    operations: _containers.RepeatedCompositeFieldContainer[SessionOperation]
    credits: _containers.RepeatedCompositeFieldContainer[SessionCredit]
    abandons: _containers.RepeatedScalarFieldContainer[int]
    heartbeat: SessionHeartbeat
    def __init__(self, hello: _Optional[_Union[SessionClientHello, _Mapping]] = ..., operations: _Optional[_Iterable[_Union[SessionOperation, _Mapping]]] = ..., credits: _Optional[_Iterable[_Union[SessionCredit, _Mapping]]] = ..., abandons: _Optional[_Iterable[int]] = ..., heartbeat: _Optional[_Union[SessionHeartbeat, _Mapping]] = ...) -> None: ...

class SessionClientHello(_message.Message):
    __slots__ = ("contract_version", "credit_bytes", "previous_lane_id", "required_features", "heartbeats")
    CONTRACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_LANE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FEATURES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEATS_FIELD_NUMBER: _ClassVar[int]
    contract_version: int
    credit_bytes: int
    previous_lane_id: str
    required_features: _containers.RepeatedScalarFieldContainer[str]
    heartbeats: bool
    def __init__(self, contract_version: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., previous_lane_id: _Optional[str] = ..., required_features: _Optional[_Iterable[str]] = ..., heartbeats: _Optional[bool] = ...) -> None: ...

class SessionOperation(_message.Message):
    __slots__ = ("correlation_id", "deadline", "traceparent", "tracestate", "credit_bytes", "bind_turn", "dispatch", "resume_dispatch", "cancel_call", "close_child", "end_turn")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    BIND_TURN_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    RESUME_DISPATCH_FIELD_NUMBER: _ClassVar[int]
    CANCEL_CALL_FIELD_NUMBER: _ClassVar[int]
    CLOSE_CHILD_FIELD_NUMBER: _ClassVar[int]
    END_TURN_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    deadline: _duration_pb2.Duration
    traceparent: str
    tracestate: str
    credit_bytes: int
    bind_turn: BindTurnRequest
    dispatch: DispatchRequest
    resume_dispatch: ResumeDispatchRequest
    cancel_call: CancelCallRequest
    close_child: CloseChildRequest
    end_turn: EndTurnRequest
    def __init__(self, correlation_id: _Optional[int] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., credit_bytes: _Optional[int] = ..., bind_turn: _Optional[_Union[BindTurnRequest, _Mapping]] = ..., dispatch: _Optional[_Union[DispatchRequest, _Mapping]] = ..., resume_dispatch: _Optional[_Union[ResumeDispatchRequest, _Mapping]] = ..., cancel_call: _Optional[_Union[CancelCallRequest, _Mapping]] = ..., close_child: _Optional[_Union[CloseChildRequest, _Mapping]] = ..., end_turn: _Optional[_Union[EndTurnRequest, _Mapping]] = ...) -> None: ...

class SessionCredit(_message.Message):
    __slots__ = ("correlation_id", "bytes")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    bytes: int
    def __init__(self, correlation_id: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SessionHeartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("hello", "results", "heartbeat", "drain")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    hello: SessionServerHello
    results: _containers.RepeatedCompositeFieldContainer[SessionResult]
    heartbeat: SessionHeartbeat
    drain: SessionDrain
    def __init__(self, hello: _Optional[_Union[SessionServerHello, _Mapping]] = ..., results: _Optional[_Iterable[_Union[SessionResult, _Mapping]]] = ..., heartbeat: _Optional[_Union[SessionHeartbeat, _Mapping]] = ..., drain: _Optional[_Union[SessionDrain, _Mapping]] = ...) -> None: ...

class SessionServerHello(_message.Message):
    __slots__ = ("contract", "lane_id", "instance_id", "max_operations", "max_message_bytes", "heartbeat_interval", "resume_grace", "max_age", "previous_stall")
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    LANE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RESUME_GRACE_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_STALL_FIELD_NUMBER: _ClassVar[int]
    contract: Contract
    lane_id: str
    instance_id: str
    max_operations: int
    max_message_bytes: int
    heartbeat_interval: _duration_pb2.Duration
    resume_grace: _duration_pb2.Duration
    max_age: _duration_pb2.Duration
    previous_stall: SessionStall
    def __init__(self, contract: _Optional[_Union[Contract, _Mapping]] = ..., lane_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., max_operations: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., resume_grace: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., previous_stall: _Optional[_Union[SessionStall, _Mapping]] = ...) -> None: ...

class SessionStall(_message.Message):
    __slots__ = ("lane_id", "stalled_at", "correlation_ids", "dropped_bytes")
    LANE_ID_FIELD_NUMBER: _ClassVar[int]
    STALLED_AT_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_IDS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    lane_id: str
    stalled_at: _timestamp_pb2.Timestamp
    correlation_ids: _containers.RepeatedScalarFieldContainer[int]
    dropped_bytes: int
    def __init__(self, lane_id: _Optional[str] = ..., stalled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., correlation_ids: _Optional[_Iterable[int]] = ..., dropped_bytes: _Optional[int] = ...) -> None: ...

class SessionResult(_message.Message):
    __slots__ = ("correlation_id", "bind_turn", "dispatch", "resume_dispatch", "cancel_call", "close_child", "end_turn", "status")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    BIND_TURN_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    RESUME_DISPATCH_FIELD_NUMBER: _ClassVar[int]
    CANCEL_CALL_FIELD_NUMBER: _ClassVar[int]
    CLOSE_CHILD_FIELD_NUMBER: _ClassVar[int]
    END_TURN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    bind_turn: BindTurnResponse
    dispatch: DispatchResponse
    resume_dispatch: ResumeDispatchResponse
    cancel_call: CancelCallResponse
    close_child: CloseChildResponse
    end_turn: EndTurnResponse
    status: SessionStatus
    def __init__(self, correlation_id: _Optional[int] = ..., bind_turn: _Optional[_Union[BindTurnResponse, _Mapping]] = ..., dispatch: _Optional[_Union[DispatchResponse, _Mapping]] = ..., resume_dispatch: _Optional[_Union[ResumeDispatchResponse, _Mapping]] = ..., cancel_call: _Optional[_Union[CancelCallResponse, _Mapping]] = ..., close_child: _Optional[_Union[CloseChildResponse, _Mapping]] = ..., end_turn: _Optional[_Union[EndTurnResponse, _Mapping]] = ..., status: _Optional[_Union[SessionStatus, _Mapping]] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("code", "message", "reason", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    details: bytes
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., details: _Optional[bytes] = ...) -> None: ...

class SessionDrain(_message.Message):
    __slots__ = ("reason", "within")
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    reason: SessionDrainReason
    within: _duration_pb2.Duration
    def __init__(self, reason: _Optional[_Union[SessionDrainReason, str]] = ..., within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
