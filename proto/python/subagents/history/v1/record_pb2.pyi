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

class PrincipalSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRINCIPAL_SOURCE_UNSPECIFIED: _ClassVar[PrincipalSource]
    PRINCIPAL_SOURCE_CONSUMER_AGENT: _ClassVar[PrincipalSource]
    PRINCIPAL_SOURCE_USER_TOKEN: _ClassVar[PrincipalSource]

class EventActor(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_ACTOR_UNSPECIFIED: _ClassVar[EventActor]
    EVENT_ACTOR_SIDECAR: _ClassVar[EventActor]
    EVENT_ACTOR_PARENT: _ClassVar[EventActor]
    EVENT_ACTOR_SUB_AGENT: _ClassVar[EventActor]
    EVENT_ACTOR_OPERATOR: _ClassVar[EventActor]

class ScoreSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORE_SOURCE_UNSPECIFIED: _ClassVar[ScoreSource]
    SCORE_SOURCE_JUDGE: _ClassVar[ScoreSource]
    SCORE_SOURCE_USER: _ClassVar[ScoreSource]
    SCORE_SOURCE_RULE: _ClassVar[ScoreSource]
TURN_STATE_UNSPECIFIED: TurnState
TURN_STATE_OPEN: TurnState
TURN_STATE_ENDED: TurnState
TURN_STATE_LOST: TurnState
PRINCIPAL_SOURCE_UNSPECIFIED: PrincipalSource
PRINCIPAL_SOURCE_CONSUMER_AGENT: PrincipalSource
PRINCIPAL_SOURCE_USER_TOKEN: PrincipalSource
EVENT_ACTOR_UNSPECIFIED: EventActor
EVENT_ACTOR_SIDECAR: EventActor
EVENT_ACTOR_PARENT: EventActor
EVENT_ACTOR_SUB_AGENT: EventActor
EVENT_ACTOR_OPERATOR: EventActor
SCORE_SOURCE_UNSPECIFIED: ScoreSource
SCORE_SOURCE_JUDGE: ScoreSource
SCORE_SOURCE_USER: ScoreSource
SCORE_SOURCE_RULE: ScoreSource

class TurnRow(_message.Message):
    __slots__ = ("turn_id", "episode_id", "principal", "state", "started_at", "ended_at", "sub_agent_ids", "child_count", "failed_child_count")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    CHILD_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_CHILD_COUNT_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    episode_id: str
    principal: str
    state: TurnState
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    child_count: int
    failed_child_count: int
    def __init__(self, turn_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., state: _Optional[_Union[TurnState, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sub_agent_ids: _Optional[_Iterable[str]] = ..., child_count: _Optional[int] = ..., failed_child_count: _Optional[int] = ...) -> None: ...

class RecordedDispatch(_message.Message):
    __slots__ = ("dispatch_id", "opened_at", "settle_by", "call_count", "owner_instance_id", "takeover_count", "owner_alive", "outcomes", "principal_source")
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_BY_FIELD_NUMBER: _ClassVar[int]
    CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TAKEOVER_COUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_ALIVE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_SOURCE_FIELD_NUMBER: _ClassVar[int]
    dispatch_id: str
    opened_at: _timestamp_pb2.Timestamp
    settle_by: _timestamp_pb2.Timestamp
    call_count: int
    owner_instance_id: str
    takeover_count: int
    owner_alive: bool
    outcomes: _containers.RepeatedCompositeFieldContainer[_outcome_pb2.CallOutcome]
    principal_source: PrincipalSource
    def __init__(self, dispatch_id: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settle_by: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., call_count: _Optional[int] = ..., owner_instance_id: _Optional[str] = ..., takeover_count: _Optional[int] = ..., owner_alive: _Optional[bool] = ..., outcomes: _Optional[_Iterable[_Union[_outcome_pb2.CallOutcome, _Mapping]]] = ..., principal_source: _Optional[_Union[PrincipalSource, str]] = ...) -> None: ...

class RecordedChild(_message.Message):
    __slots__ = ("child_id", "dispatch_id", "call_id", "sub_agent_id", "emission_index", "parent_child_id", "opened_at", "contract_json", "events", "answered_in_turn_id")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    EMISSION_INDEX_FIELD_NUMBER: _ClassVar[int]
    PARENT_CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_JSON_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_IN_TURN_ID_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    dispatch_id: str
    call_id: str
    sub_agent_id: str
    emission_index: int
    parent_child_id: str
    opened_at: _timestamp_pb2.Timestamp
    contract_json: str
    events: _containers.RepeatedCompositeFieldContainer[ChildEvent]
    answered_in_turn_id: str
    def __init__(self, child_id: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., call_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., emission_index: _Optional[int] = ..., parent_child_id: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., contract_json: _Optional[str] = ..., events: _Optional[_Iterable[_Union[ChildEvent, _Mapping]]] = ..., answered_in_turn_id: _Optional[str] = ...) -> None: ...

class ChildEvent(_message.Message):
    __slots__ = ("event_id", "child_id", "sequence", "name", "occurred_at", "actor", "summary", "details_json", "previous_link", "link")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_LINK_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    child_id: str
    sequence: int
    name: str
    occurred_at: _timestamp_pb2.Timestamp
    actor: EventActor
    summary: str
    details_json: str
    previous_link: str
    link: str
    def __init__(self, event_id: _Optional[str] = ..., child_id: _Optional[str] = ..., sequence: _Optional[int] = ..., name: _Optional[str] = ..., occurred_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., actor: _Optional[_Union[EventActor, str]] = ..., summary: _Optional[str] = ..., details_json: _Optional[str] = ..., previous_link: _Optional[str] = ..., link: _Optional[str] = ...) -> None: ...

class EpisodeRow(_message.Message):
    __slots__ = ("episode_id", "principal", "turn_count", "first_turn_at", "last_turn_at", "sub_agent_ids")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TURN_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_TURN_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_TURN_AT_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    principal: str
    turn_count: int
    first_turn_at: _timestamp_pb2.Timestamp
    last_turn_at: _timestamp_pb2.Timestamp
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, episode_id: _Optional[str] = ..., principal: _Optional[str] = ..., turn_count: _Optional[int] = ..., first_turn_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_turn_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sub_agent_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RecordedScore(_message.Message):
    __slots__ = ("score_id", "dispatch_id", "call_id", "name", "value", "label", "source", "explanation", "recorded_by", "recorded_at")
    SCORE_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    RECORDED_BY_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AT_FIELD_NUMBER: _ClassVar[int]
    score_id: str
    dispatch_id: str
    call_id: str
    name: str
    value: float
    label: str
    source: ScoreSource
    explanation: str
    recorded_by: str
    recorded_at: _timestamp_pb2.Timestamp
    def __init__(self, score_id: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., call_id: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[float] = ..., label: _Optional[str] = ..., source: _Optional[_Union[ScoreSource, str]] = ..., explanation: _Optional[str] = ..., recorded_by: _Optional[str] = ..., recorded_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
