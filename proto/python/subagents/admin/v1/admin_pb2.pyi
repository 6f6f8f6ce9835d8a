import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import outcome_pb2 as _outcome_pb2
from subagents.lifecycle.v1 import reading_pb2 as _reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PluginKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLUGIN_KIND_UNSPECIFIED: _ClassVar[PluginKind]
    PLUGIN_KIND_FLAG_BACKEND: _ClassVar[PluginKind]
    PLUGIN_KIND_RUNNER: _ClassVar[PluginKind]
    PLUGIN_KIND_CONNECTOR: _ClassVar[PluginKind]
    PLUGIN_KIND_EPISODE_MEMORY: _ClassVar[PluginKind]
    PLUGIN_KIND_GATE_CLIENT: _ClassVar[PluginKind]
    PLUGIN_KIND_LIFECYCLE_POLICY: _ClassVar[PluginKind]
    PLUGIN_KIND_AUDIT_SINK: _ClassVar[PluginKind]

class PluginState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLUGIN_STATE_UNSPECIFIED: _ClassVar[PluginState]
    PLUGIN_STATE_ACTIVE: _ClassVar[PluginState]
    PLUGIN_STATE_AVAILABLE: _ClassVar[PluginState]
    PLUGIN_STATE_NOT_SELECTED: _ClassVar[PluginState]
    PLUGIN_STATE_BROKEN: _ClassVar[PluginState]
    PLUGIN_STATE_INCOMPATIBLE: _ClassVar[PluginState]
PLUGIN_KIND_UNSPECIFIED: PluginKind
PLUGIN_KIND_FLAG_BACKEND: PluginKind
PLUGIN_KIND_RUNNER: PluginKind
PLUGIN_KIND_CONNECTOR: PluginKind
PLUGIN_KIND_EPISODE_MEMORY: PluginKind
PLUGIN_KIND_GATE_CLIENT: PluginKind
PLUGIN_KIND_LIFECYCLE_POLICY: PluginKind
PLUGIN_KIND_AUDIT_SINK: PluginKind
PLUGIN_STATE_UNSPECIFIED: PluginState
PLUGIN_STATE_ACTIVE: PluginState
PLUGIN_STATE_AVAILABLE: PluginState
PLUGIN_STATE_NOT_SELECTED: PluginState
PLUGIN_STATE_BROKEN: PluginState
PLUGIN_STATE_INCOMPATIBLE: PluginState

class ListPluginsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPluginsResponse(_message.Message):
    __slots__ = ("plugins", "next_page_token")
    PLUGINS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    plugins: _containers.RepeatedCompositeFieldContainer[Plugin]
    next_page_token: str
    def __init__(self, plugins: _Optional[_Iterable[_Union[Plugin, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Plugin(_message.Message):
    __slots__ = ("name", "kind", "contract", "distribution", "version", "state", "summary", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: PluginKind
    contract: str
    distribution: str
    version: str
    state: PluginState
    summary: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[PluginKind, str]] = ..., contract: _Optional[str] = ..., distribution: _Optional[str] = ..., version: _Optional[str] = ..., state: _Optional[_Union[PluginState, str]] = ..., summary: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("resume", "reason")
    RESUME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    resume: bool
    reason: str
    def __init__(self, resume: _Optional[bool] = ..., reason: _Optional[str] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("draining", "open_turns", "calls_in_flight")
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    OPEN_TURNS_FIELD_NUMBER: _ClassVar[int]
    CALLS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    draining: bool
    open_turns: int
    calls_in_flight: int
    def __init__(self, draining: _Optional[bool] = ..., open_turns: _Optional[int] = ..., calls_in_flight: _Optional[int] = ...) -> None: ...

class ForceEndTurnRequest(_message.Message):
    __slots__ = ("turn_id", "reason")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    reason: str
    def __init__(self, turn_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ForceEndTurnResponse(_message.Message):
    __slots__ = ("ended_before", "close_reason", "child_count")
    ENDED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_REASON_FIELD_NUMBER: _ClassVar[int]
    CHILD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ended_before: bool
    close_reason: _outcome_pb2.TurnCloseReason
    child_count: int
    def __init__(self, ended_before: _Optional[bool] = ..., close_reason: _Optional[_Union[_outcome_pb2.TurnCloseReason, str]] = ..., child_count: _Optional[int] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "instance_id", "started_at", "ready", "blockers", "draining", "open_turns", "calls_in_flight", "rollout_version", "pending_kills", "uptime", "caller", "caller_role", "attention")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    BLOCKERS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    OPEN_TURNS_FIELD_NUMBER: _ClassVar[int]
    CALLS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PENDING_KILLS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CALLER_ROLE_FIELD_NUMBER: _ClassVar[int]
    ATTENTION_FIELD_NUMBER: _ClassVar[int]
    version: str
    instance_id: str
    started_at: _timestamp_pb2.Timestamp
    ready: bool
    blockers: _containers.RepeatedScalarFieldContainer[str]
    draining: bool
    open_turns: int
    calls_in_flight: int
    rollout_version: int
    pending_kills: int
    uptime: _duration_pb2.Duration
    caller: str
    caller_role: _reading_pb2.ActorRole
    attention: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[str] = ..., instance_id: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ready: _Optional[bool] = ..., blockers: _Optional[_Iterable[str]] = ..., draining: _Optional[bool] = ..., open_turns: _Optional[int] = ..., calls_in_flight: _Optional[int] = ..., rollout_version: _Optional[int] = ..., pending_kills: _Optional[int] = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., caller: _Optional[str] = ..., caller_role: _Optional[_Union[_reading_pb2.ActorRole, str]] = ..., attention: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTrafficRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTrafficResponse(_message.Message):
    __slots__ = ("instance_id", "read_at", "calls", "slots", "duration_bounds", "limits", "dispatches", "most_dispatches")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    READ_AT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    DURATION_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    MOST_DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    read_at: _timestamp_pb2.Timestamp
    calls: _containers.RepeatedCompositeFieldContainer[CallCount]
    slots: _containers.RepeatedCompositeFieldContainer[SlotTraffic]
    duration_bounds: _containers.RepeatedScalarFieldContainer[float]
    limits: _containers.RepeatedCompositeFieldContainer[LimitCount]
    dispatches: int
    most_dispatches: int
    def __init__(self, instance_id: _Optional[str] = ..., read_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., calls: _Optional[_Iterable[_Union[CallCount, _Mapping]]] = ..., slots: _Optional[_Iterable[_Union[SlotTraffic, _Mapping]]] = ..., duration_bounds: _Optional[_Iterable[float]] = ..., limits: _Optional[_Iterable[_Union[LimitCount, _Mapping]]] = ..., dispatches: _Optional[int] = ..., most_dispatches: _Optional[int] = ...) -> None: ...

class CallCount(_message.Message):
    __slots__ = ("sub_agent_id", "definition_id", "arm", "outcome", "reason", "count")
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    sub_agent_id: str
    definition_id: str
    arm: str
    outcome: _outcome_pb2.Outcome
    reason: str
    count: int
    def __init__(self, sub_agent_id: _Optional[str] = ..., definition_id: _Optional[str] = ..., arm: _Optional[str] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class SlotTraffic(_message.Message):
    __slots__ = ("sub_agent_id", "in_flight", "durations", "open_breakers")
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    DURATIONS_FIELD_NUMBER: _ClassVar[int]
    OPEN_BREAKERS_FIELD_NUMBER: _ClassVar[int]
    sub_agent_id: str
    in_flight: int
    durations: _containers.RepeatedScalarFieldContainer[int]
    open_breakers: _containers.RepeatedCompositeFieldContainer[OpenBreaker]
    def __init__(self, sub_agent_id: _Optional[str] = ..., in_flight: _Optional[int] = ..., durations: _Optional[_Iterable[int]] = ..., open_breakers: _Optional[_Iterable[_Union[OpenBreaker, _Mapping]]] = ...) -> None: ...

class OpenBreaker(_message.Message):
    __slots__ = ("target", "half_open")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HALF_OPEN_FIELD_NUMBER: _ClassVar[int]
    target: str
    half_open: bool
    def __init__(self, target: _Optional[str] = ..., half_open: _Optional[bool] = ...) -> None: ...

class LimitCount(_message.Message):
    __slots__ = ("limit", "count")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    limit: str
    count: int
    def __init__(self, limit: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class VerifyLogRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VerifyLogResponse(_message.Message):
    __slots__ = ("findings", "notices", "done", "fact_count", "turn_count")
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TURN_COUNT_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedScalarFieldContainer[str]
    notices: _containers.RepeatedScalarFieldContainer[str]
    done: bool
    fact_count: int
    turn_count: int
    def __init__(self, findings: _Optional[_Iterable[str]] = ..., notices: _Optional[_Iterable[str]] = ..., done: _Optional[bool] = ..., fact_count: _Optional[int] = ..., turn_count: _Optional[int] = ...) -> None: ...

class EraseUserRequest(_message.Message):
    __slots__ = ("principal", "reason", "preview")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    principal: str
    reason: str
    preview: bool
    def __init__(self, principal: _Optional[str] = ..., reason: _Optional[str] = ..., preview: _Optional[bool] = ...) -> None: ...

class EraseUserResponse(_message.Message):
    __slots__ = ("turns_read", "turn_count", "open_turn_ids", "fact_count", "conversation_count", "done")
    TURNS_READ_FIELD_NUMBER: _ClassVar[int]
    TURN_COUNT_FIELD_NUMBER: _ClassVar[int]
    OPEN_TURN_IDS_FIELD_NUMBER: _ClassVar[int]
    FACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    turns_read: int
    turn_count: int
    open_turn_ids: _containers.RepeatedScalarFieldContainer[str]
    fact_count: int
    conversation_count: int
    done: bool
    def __init__(self, turns_read: _Optional[int] = ..., turn_count: _Optional[int] = ..., open_turn_ids: _Optional[_Iterable[str]] = ..., fact_count: _Optional[int] = ..., conversation_count: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...
