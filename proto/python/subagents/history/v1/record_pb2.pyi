import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import outcome_pb2 as _outcome_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TurnState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_STATE_UNSPECIFIED: _ClassVar[TurnState]
    TURN_STATE_OPEN: _ClassVar[TurnState]
    TURN_STATE_ENDED: _ClassVar[TurnState]
    TURN_STATE_LOST: _ClassVar[TurnState]
TURN_STATE_UNSPECIFIED: TurnState
TURN_STATE_OPEN: TurnState
TURN_STATE_ENDED: TurnState
TURN_STATE_LOST: TurnState

class TurnRow(_message.Message):
    __slots__ = ("turn_id", "episode_id", "principal", "state", "began_at", "ended_at", "sub_agent_ids", "children", "failed")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    episode_id: str
    principal: str
    state: TurnState
    began_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    children: int
    failed: int
    def __init__(self, turn_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., state: _Optional[_Union[TurnState, str]] = ..., began_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sub_agent_ids: _Optional[_Iterable[str]] = ..., children: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class RecordedDispatch(_message.Message):
    __slots__ = ("dispatch_id", "opened_at", "settle_by", "calls", "owner", "epoch", "owner_alive", "outcomes")
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_BY_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_ALIVE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    dispatch_id: str
    opened_at: _timestamp_pb2.Timestamp
    settle_by: _timestamp_pb2.Timestamp
    calls: int
    owner: str
    epoch: int
    owner_alive: bool
    outcomes: _containers.RepeatedCompositeFieldContainer[_outcome_pb2.CallOutcome]
    def __init__(self, dispatch_id: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settle_by: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., calls: _Optional[int] = ..., owner: _Optional[str] = ..., epoch: _Optional[int] = ..., owner_alive: _Optional[bool] = ..., outcomes: _Optional[_Iterable[_Union[_outcome_pb2.CallOutcome, _Mapping]]] = ...) -> None: ...

class RecordedChild(_message.Message):
    __slots__ = ("child_id", "dispatch_id", "call_id", "sub_agent_id", "step_idx", "parent_child_id", "opened_at", "context_json", "events", "answered_in_turn_id")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_IDX_FIELD_NUMBER: _ClassVar[int]
    PARENT_CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_JSON_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_IN_TURN_ID_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    dispatch_id: str
    call_id: str
    sub_agent_id: str
    step_idx: int
    parent_child_id: str
    opened_at: _timestamp_pb2.Timestamp
    context_json: str
    events: _containers.RepeatedCompositeFieldContainer[ChildEvent]
    answered_in_turn_id: str
    def __init__(self, child_id: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., call_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., step_idx: _Optional[int] = ..., parent_child_id: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., context_json: _Optional[str] = ..., events: _Optional[_Iterable[_Union[ChildEvent, _Mapping]]] = ..., answered_in_turn_id: _Optional[str] = ...) -> None: ...

class ChildEvent(_message.Message):
    __slots__ = ("event_id", "child_id", "sequence", "name", "time", "actor", "summary", "details_json", "previous_link", "link")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_LINK_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    child_id: str
    sequence: int
    name: str
    time: _timestamp_pb2.Timestamp
    actor: str
    summary: str
    details_json: str
    previous_link: str
    link: str
    def __init__(self, event_id: _Optional[str] = ..., child_id: _Optional[str] = ..., sequence: _Optional[int] = ..., name: _Optional[str] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[str] = ..., summary: _Optional[str] = ..., details_json: _Optional[str] = ..., previous_link: _Optional[str] = ..., link: _Optional[str] = ...) -> None: ...

class EpisodeRow(_message.Message):
    __slots__ = ("episode_id", "principal", "turns", "first_at", "last_at", "sub_agent_ids")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    principal: str
    turns: int
    first_at: _timestamp_pb2.Timestamp
    last_at: _timestamp_pb2.Timestamp
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., turns: _Optional[int] = ..., first_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sub_agent_ids: _Optional[_Iterable[str]] = ...) -> None: ...
