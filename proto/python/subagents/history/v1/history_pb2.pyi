import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EpisodeView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPISODE_VIEW_UNSPECIFIED: _ClassVar[EpisodeView]
    EPISODE_VIEW_NARRATION: _ClassVar[EpisodeView]
    EPISODE_VIEW_FULL: _ClassVar[EpisodeView]
EPISODE_VIEW_UNSPECIFIED: EpisodeView
EPISODE_VIEW_NARRATION: EpisodeView
EPISODE_VIEW_FULL: EpisodeView

class ReadEpisodeRequest(_message.Message):
    __slots__ = ("episode_id", "principal", "view", "max_turns")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MAX_TURNS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    principal: str
    view: EpisodeView
    max_turns: int
    def __init__(self, episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., view: _Optional[_Union[EpisodeView, str]] = ..., max_turns: _Optional[int] = ...) -> None: ...

class ReadEpisodeResponse(_message.Message):
    __slots__ = ("summary", "turns", "turns_left_out", "size")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    TURNS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    summary: EpisodeSummary
    turns: _containers.RepeatedCompositeFieldContainer[EpisodeTurn]
    turns_left_out: int
    size: EpisodeSize
    def __init__(self, summary: _Optional[_Union[EpisodeSummary, _Mapping]] = ..., turns: _Optional[_Iterable[_Union[EpisodeTurn, _Mapping]]] = ..., turns_left_out: _Optional[int] = ..., size: _Optional[_Union[EpisodeSize, _Mapping]] = ...) -> None: ...

class EpisodeSummary(_message.Message):
    __slots__ = ("revision", "text", "up_to_turn_id", "written_at")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    UP_TO_TURN_ID_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_FIELD_NUMBER: _ClassVar[int]
    revision: int
    text: str
    up_to_turn_id: str
    written_at: _timestamp_pb2.Timestamp
    def __init__(self, revision: _Optional[int] = ..., text: _Optional[str] = ..., up_to_turn_id: _Optional[str] = ..., written_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class EpisodeTurn(_message.Message):
    __slots__ = ("turn_id", "ended_at", "user_message", "narration", "answers", "references", "tool_messages")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    TOOL_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    ended_at: _timestamp_pb2.Timestamp
    user_message: str
    narration: str
    answers: _containers.RepeatedCompositeFieldContainer[SubAgentAnswer]
    references: _containers.RepeatedCompositeFieldContainer[ComponentReference]
    tool_messages: _containers.RepeatedCompositeFieldContainer[ToolMessage]
    def __init__(self, turn_id: _Optional[str] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., user_message: _Optional[str] = ..., narration: _Optional[str] = ..., answers: _Optional[_Iterable[_Union[SubAgentAnswer, _Mapping]]] = ..., references: _Optional[_Iterable[_Union[ComponentReference, _Mapping]]] = ..., tool_messages: _Optional[_Iterable[_Union[ToolMessage, _Mapping]]] = ...) -> None: ...

class SubAgentAnswer(_message.Message):
    __slots__ = ("sub_agent_id", "call_id", "asked", "narration")
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    sub_agent_id: str
    call_id: str
    asked: str
    narration: str
    def __init__(self, sub_agent_id: _Optional[str] = ..., call_id: _Optional[str] = ..., asked: _Optional[str] = ..., narration: _Optional[str] = ...) -> None: ...

class ComponentReference(_message.Message):
    __slots__ = ("sub_agent_id", "name", "position", "component_ids")
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_IDS_FIELD_NUMBER: _ClassVar[int]
    sub_agent_id: str
    name: str
    position: int
    component_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sub_agent_id: _Optional[str] = ..., name: _Optional[str] = ..., position: _Optional[int] = ..., component_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ToolMessage(_message.Message):
    __slots__ = ("turn_id", "sub_agent_id", "call_id", "position", "name", "tool_input_json", "component_data_json")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    sub_agent_id: str
    call_id: str
    position: int
    name: str
    tool_input_json: str
    component_data_json: str
    def __init__(self, turn_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., call_id: _Optional[str] = ..., position: _Optional[int] = ..., name: _Optional[str] = ..., tool_input_json: _Optional[str] = ..., component_data_json: _Optional[str] = ...) -> None: ...

class EpisodeSize(_message.Message):
    __slots__ = ("turns", "tokens")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    turns: int
    tokens: int
    def __init__(self, turns: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class WriteSummaryRequest(_message.Message):
    __slots__ = ("episode_id", "principal", "text", "up_to_turn_id", "expected_revision")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    UP_TO_TURN_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    principal: str
    text: str
    up_to_turn_id: str
    expected_revision: int
    def __init__(self, episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., text: _Optional[str] = ..., up_to_turn_id: _Optional[str] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class WriteSummaryResponse(_message.Message):
    __slots__ = ("revision", "size")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    size: EpisodeSize
    def __init__(self, revision: _Optional[int] = ..., size: _Optional[_Union[EpisodeSize, _Mapping]] = ...) -> None: ...
