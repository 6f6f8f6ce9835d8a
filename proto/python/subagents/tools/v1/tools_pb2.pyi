import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import outcome_pb2 as _outcome_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallToolRequest(_message.Message):
    __slots__ = ("tool_id", "arguments_json")
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    arguments_json: str
    def __init__(self, tool_id: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class CallToolResponse(_message.Message):
    __slots__ = ("payload_json", "data_unavailable", "partial")
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    payload_json: str
    data_unavailable: DataUnavailable
    partial: bool
    def __init__(self, payload_json: _Optional[str] = ..., data_unavailable: _Optional[_Union[DataUnavailable, _Mapping]] = ..., partial: _Optional[bool] = ...) -> None: ...

class DataUnavailable(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadOwnTurnsRequest(_message.Message):
    __slots__ = ("max_turns",)
    MAX_TURNS_FIELD_NUMBER: _ClassVar[int]
    max_turns: int
    def __init__(self, max_turns: _Optional[int] = ...) -> None: ...

class ReadOwnTurnsResponse(_message.Message):
    __slots__ = ("turns",)
    TURNS_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[OwnTurn]
    def __init__(self, turns: _Optional[_Iterable[_Union[OwnTurn, _Mapping]]] = ...) -> None: ...

class OwnTurn(_message.Message):
    __slots__ = ("turn_id", "ended_at", "asked", "narration", "components")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    ended_at: _timestamp_pb2.Timestamp
    asked: str
    narration: str
    components: _containers.RepeatedCompositeFieldContainer[OwnComponent]
    def __init__(self, turn_id: _Optional[str] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., asked: _Optional[str] = ..., narration: _Optional[str] = ..., components: _Optional[_Iterable[_Union[OwnComponent, _Mapping]]] = ...) -> None: ...

class OwnComponent(_message.Message):
    __slots__ = ("name", "position", "component_ids")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_IDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    position: int
    component_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., position: _Optional[int] = ..., component_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DelegateRequest(_message.Message):
    __slots__ = ("tool_name", "arguments_json")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    arguments_json: str
    def __init__(self, tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class DelegateResponse(_message.Message):
    __slots__ = ("outcome", "narration", "components", "data_unavailable", "message")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    DATA_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    outcome: _outcome_pb2.Outcome
    narration: str
    components: _containers.RepeatedCompositeFieldContainer[_outcome_pb2.Component]
    data_unavailable: bool
    message: str
    def __init__(self, outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., narration: _Optional[str] = ..., components: _Optional[_Iterable[_Union[_outcome_pb2.Component, _Mapping]]] = ..., data_unavailable: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...
