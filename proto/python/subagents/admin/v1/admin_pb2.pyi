import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    kind: str
    contract: str
    distribution: str
    version: str
    state: str
    summary: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., contract: _Optional[str] = ..., distribution: _Optional[str] = ..., version: _Optional[str] = ..., state: _Optional[str] = ..., summary: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

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

class EndTurnRequest(_message.Message):
    __slots__ = ("turn_id", "reason")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    reason: str
    def __init__(self, turn_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class EndTurnResponse(_message.Message):
    __slots__ = ("ended_before", "close_reason", "children")
    ENDED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_REASON_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    ended_before: bool
    close_reason: str
    children: int
    def __init__(self, ended_before: _Optional[bool] = ..., close_reason: _Optional[str] = ..., children: _Optional[int] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "instance", "started_at", "ready", "blocks", "draining", "open_turns", "calls_in_flight", "rollout_version", "pending_kills", "uptime")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    OPEN_TURNS_FIELD_NUMBER: _ClassVar[int]
    CALLS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PENDING_KILLS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    version: str
    instance: str
    started_at: _timestamp_pb2.Timestamp
    ready: bool
    blocks: _containers.RepeatedScalarFieldContainer[str]
    draining: bool
    open_turns: int
    calls_in_flight: int
    rollout_version: int
    pending_kills: int
    uptime: _duration_pb2.Duration
    def __init__(self, version: _Optional[str] = ..., instance: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ready: _Optional[bool] = ..., blocks: _Optional[_Iterable[str]] = ..., draining: _Optional[bool] = ..., open_turns: _Optional[int] = ..., calls_in_flight: _Optional[int] = ..., rollout_version: _Optional[int] = ..., pending_kills: _Optional[int] = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class VerifyLogRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VerifyLogResponse(_message.Message):
    __slots__ = ("findings", "notices", "done", "facts", "turns")
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedScalarFieldContainer[str]
    notices: _containers.RepeatedScalarFieldContainer[str]
    done: bool
    facts: int
    turns: int
    def __init__(self, findings: _Optional[_Iterable[str]] = ..., notices: _Optional[_Iterable[str]] = ..., done: _Optional[bool] = ..., facts: _Optional[int] = ..., turns: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("looked_at", "turns", "open_turn_ids", "facts", "conversations", "done")
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    OPEN_TURN_IDS_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    looked_at: int
    turns: int
    open_turn_ids: _containers.RepeatedScalarFieldContainer[str]
    facts: int
    conversations: int
    done: bool
    def __init__(self, looked_at: _Optional[int] = ..., turns: _Optional[int] = ..., open_turn_ids: _Optional[_Iterable[str]] = ..., facts: _Optional[int] = ..., conversations: _Optional[int] = ..., done: _Optional[bool] = ...) -> None: ...
