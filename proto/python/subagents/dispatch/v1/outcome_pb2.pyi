import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from subagents.errors.v1 import error_reason_pb2 as _error_reason_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_DEGRADED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_DROPPED: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]
    OUTCOME_NOT_STARTED: _ClassVar[Outcome]

class FinalStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINAL_STATUS_UNSPECIFIED: _ClassVar[FinalStatus]
    FINAL_STATUS_COMPLETED: _ClassVar[FinalStatus]
    FINAL_STATUS_FAILED: _ClassVar[FinalStatus]

class ChildCloseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHILD_CLOSE_REASON_UNSPECIFIED: _ClassVar[ChildCloseReason]
    CHILD_CLOSE_REASON_INTEGRATED: _ClassVar[ChildCloseReason]
    CHILD_CLOSE_REASON_INTEGRATION_FAILED: _ClassVar[ChildCloseReason]
    CHILD_CLOSE_REASON_EXECUTION_FAILED: _ClassVar[ChildCloseReason]
    CHILD_CLOSE_REASON_TURN_ENDED: _ClassVar[ChildCloseReason]
    CHILD_CLOSE_REASON_PARENT_LOST: _ClassVar[ChildCloseReason]
    CHILD_CLOSE_REASON_ENDED_BY_OPERATOR: _ClassVar[ChildCloseReason]

class TurnCloseReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_CLOSE_REASON_UNSPECIFIED: _ClassVar[TurnCloseReason]
    TURN_CLOSE_REASON_ENDED: _ClassVar[TurnCloseReason]
    TURN_CLOSE_REASON_PARENT_LOST: _ClassVar[TurnCloseReason]
    TURN_CLOSE_REASON_ENDED_BY_OPERATOR: _ClassVar[TurnCloseReason]

class CapBehaviour(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAP_BEHAVIOUR_UNSPECIFIED: _ClassVar[CapBehaviour]
    CAP_BEHAVIOUR_WITHIN: _ClassVar[CapBehaviour]
    CAP_BEHAVIOUR_AT: _ClassVar[CapBehaviour]
    CAP_BEHAVIOUR_OVER: _ClassVar[CapBehaviour]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_DEGRADED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_DROPPED: Outcome
OUTCOME_REFUSED: Outcome
OUTCOME_NOT_STARTED: Outcome
FINAL_STATUS_UNSPECIFIED: FinalStatus
FINAL_STATUS_COMPLETED: FinalStatus
FINAL_STATUS_FAILED: FinalStatus
CHILD_CLOSE_REASON_UNSPECIFIED: ChildCloseReason
CHILD_CLOSE_REASON_INTEGRATED: ChildCloseReason
CHILD_CLOSE_REASON_INTEGRATION_FAILED: ChildCloseReason
CHILD_CLOSE_REASON_EXECUTION_FAILED: ChildCloseReason
CHILD_CLOSE_REASON_TURN_ENDED: ChildCloseReason
CHILD_CLOSE_REASON_PARENT_LOST: ChildCloseReason
CHILD_CLOSE_REASON_ENDED_BY_OPERATOR: ChildCloseReason
TURN_CLOSE_REASON_UNSPECIFIED: TurnCloseReason
TURN_CLOSE_REASON_ENDED: TurnCloseReason
TURN_CLOSE_REASON_PARENT_LOST: TurnCloseReason
TURN_CLOSE_REASON_ENDED_BY_OPERATOR: TurnCloseReason
CAP_BEHAVIOUR_UNSPECIFIED: CapBehaviour
CAP_BEHAVIOUR_WITHIN: CapBehaviour
CAP_BEHAVIOUR_AT: CapBehaviour
CAP_BEHAVIOUR_OVER: CapBehaviour

class CallOutcome(_message.Message):
    __slots__ = ("call_id", "tool_name", "sub_agent_id", "child_id", "emission_index", "outcome", "narration", "components", "data_unavailable", "status", "attempts", "duration", "usage")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    EMISSION_INDEX_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    DATA_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_name: str
    sub_agent_id: str
    child_id: str
    emission_index: int
    outcome: Outcome
    narration: str
    components: _containers.RepeatedCompositeFieldContainer[Component]
    data_unavailable: bool
    status: _error_reason_pb2.CallStatus
    attempts: int
    duration: _duration_pb2.Duration
    usage: TokenUsage
    def __init__(self, call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., child_id: _Optional[str] = ..., emission_index: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., narration: _Optional[str] = ..., components: _Optional[_Iterable[_Union[Component, _Mapping]]] = ..., data_unavailable: _Optional[bool] = ..., status: _Optional[_Union[_error_reason_pb2.CallStatus, _Mapping]] = ..., attempts: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., usage: _Optional[_Union[TokenUsage, _Mapping]] = ...) -> None: ...

class Component(_message.Message):
    __slots__ = ("name", "tool_input_json", "component_data_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool_input_json: str
    component_data_json: str
    def __init__(self, name: _Optional[str] = ..., tool_input_json: _Optional[str] = ..., component_data_json: _Optional[str] = ...) -> None: ...

class TokenUsage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cached_input_tokens")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cached_input_tokens: _Optional[int] = ...) -> None: ...

class IntentReport(_message.Message):
    __slots__ = ("declared", "emitted", "failsafe", "switched", "prior_context_missing")
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    EMITTED_FIELD_NUMBER: _ClassVar[int]
    FAILSAFE_FIELD_NUMBER: _ClassVar[int]
    SWITCHED_FIELD_NUMBER: _ClassVar[int]
    PRIOR_CONTEXT_MISSING_FIELD_NUMBER: _ClassVar[int]
    declared: int
    emitted: int
    failsafe: bool
    switched: bool
    prior_context_missing: bool
    def __init__(self, declared: _Optional[int] = ..., emitted: _Optional[int] = ..., failsafe: _Optional[bool] = ..., switched: _Optional[bool] = ..., prior_context_missing: _Optional[bool] = ...) -> None: ...
