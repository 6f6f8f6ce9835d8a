import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import outcome_pb2 as _outcome_pb2
from subagents.dispatch.v1 import surface_pb2 as _surface_pb2
from subagents.errors.v1 import error_reason_pb2 as _error_reason_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RoutingDecision(_message.Message):
    __slots__ = ("turn_id", "episode_id", "orchestrator_id", "candidates", "calls", "intents", "intent_count", "fan_out_cap", "cap", "cohort", "binding_digest", "bound_at", "ended_at", "close_reason", "overhead", "principal_asserted_by", "gate_passed")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    ORCHESTRATOR_ID_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    INTENTS_FIELD_NUMBER: _ClassVar[int]
    INTENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAN_OUT_CAP_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    BINDING_DIGEST_FIELD_NUMBER: _ClassVar[int]
    BOUND_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_REASON_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_ASSERTED_BY_FIELD_NUMBER: _ClassVar[int]
    GATE_PASSED_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    episode_id: str
    orchestrator_id: str
    candidates: _containers.RepeatedCompositeFieldContainer[_surface_pb2.Candidate]
    calls: _containers.RepeatedCompositeFieldContainer[RoutedCall]
    intents: _containers.RepeatedCompositeFieldContainer[_outcome_pb2.IntentReport]
    intent_count: int
    fan_out_cap: int
    cap: _outcome_pb2.CapBehaviour
    cohort: _surface_pb2.Cohort
    binding_digest: str
    bound_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    close_reason: _outcome_pb2.TurnCloseReason
    overhead: _duration_pb2.Duration
    principal_asserted_by: str
    gate_passed: bool
    def __init__(self, turn_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., orchestrator_id: _Optional[str] = ..., candidates: _Optional[_Iterable[_Union[_surface_pb2.Candidate, _Mapping]]] = ..., calls: _Optional[_Iterable[_Union[RoutedCall, _Mapping]]] = ..., intents: _Optional[_Iterable[_Union[_outcome_pb2.IntentReport, _Mapping]]] = ..., intent_count: _Optional[int] = ..., fan_out_cap: _Optional[int] = ..., cap: _Optional[_Union[_outcome_pb2.CapBehaviour, str]] = ..., cohort: _Optional[_Union[_surface_pb2.Cohort, _Mapping]] = ..., binding_digest: _Optional[str] = ..., bound_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., close_reason: _Optional[_Union[_outcome_pb2.TurnCloseReason, str]] = ..., overhead: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., principal_asserted_by: _Optional[str] = ..., gate_passed: _Optional[bool] = ...) -> None: ...

class RoutedCall(_message.Message):
    __slots__ = ("call_id", "sub_agent_id", "child_id", "emission_index", "outcome", "reason", "axis", "started_at", "settled_at", "attempts", "status_events", "dispatch_id")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    EMISSION_INDEX_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    SETTLED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    STATUS_EVENTS_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    sub_agent_id: str
    child_id: str
    emission_index: int
    outcome: _outcome_pb2.Outcome
    reason: _error_reason_pb2.ErrorReason
    axis: _error_reason_pb2.FailureAxis
    started_at: _timestamp_pb2.Timestamp
    settled_at: _timestamp_pb2.Timestamp
    attempts: int
    status_events: int
    dispatch_id: str
    def __init__(self, call_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., child_id: _Optional[str] = ..., emission_index: _Optional[int] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., reason: _Optional[_Union[_error_reason_pb2.ErrorReason, str]] = ..., axis: _Optional[_Union[_error_reason_pb2.FailureAxis, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[int] = ..., status_events: _Optional[int] = ..., dispatch_id: _Optional[str] = ...) -> None: ...
