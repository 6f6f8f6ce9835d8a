import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.dispatch.v1 import outcome_pb2 as _outcome_pb2
from subagents.dispatch.v1 import routing_pb2 as _routing_pb2
from subagents.errors.v1 import error_reason_pb2 as _error_reason_pb2
from subagents.history.v1 import record_pb2 as _record_pb2
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
    __slots__ = ("turn_count", "token_count")
    TURN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    turn_count: int
    token_count: int
    def __init__(self, turn_count: _Optional[int] = ..., token_count: _Optional[int] = ...) -> None: ...

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

class ListTurnsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "episode_id", "sub_agent_id", "state", "principal", "since", "until", "outcome", "definition_id", "reason")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    episode_id: str
    sub_agent_id: str
    state: _record_pb2.TurnState
    principal: str
    since: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    outcome: _outcome_pb2.Outcome
    definition_id: str
    reason: _error_reason_pb2.ErrorReason
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., episode_id: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., state: _Optional[_Union[_record_pb2.TurnState, str]] = ..., principal: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., outcome: _Optional[_Union[_outcome_pb2.Outcome, str]] = ..., definition_id: _Optional[str] = ..., reason: _Optional[_Union[_error_reason_pb2.ErrorReason, str]] = ...) -> None: ...

class ListTurnsResponse(_message.Message):
    __slots__ = ("turns", "next_page_token", "as_of")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[_record_pb2.TurnRow]
    next_page_token: str
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, turns: _Optional[_Iterable[_Union[_record_pb2.TurnRow, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetTurnRequest(_message.Message):
    __slots__ = ("turn_id", "child_ids")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    CHILD_IDS_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    child_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, turn_id: _Optional[str] = ..., child_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetTurnResponse(_message.Message):
    __slots__ = ("turn", "dispatches", "children", "routing_decision", "narration", "close_reason", "texts_left_out", "events_left_out", "scores")
    TURN_FIELD_NUMBER: _ClassVar[int]
    DISPATCHES_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    ROUTING_DECISION_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    CLOSE_REASON_FIELD_NUMBER: _ClassVar[int]
    TEXTS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    turn: _record_pb2.TurnRow
    dispatches: _containers.RepeatedCompositeFieldContainer[_record_pb2.RecordedDispatch]
    children: _containers.RepeatedCompositeFieldContainer[_record_pb2.RecordedChild]
    routing_decision: _routing_pb2.RoutingDecision
    narration: str
    close_reason: _outcome_pb2.TurnCloseReason
    texts_left_out: int
    events_left_out: int
    scores: _containers.RepeatedCompositeFieldContainer[_record_pb2.RecordedScore]
    def __init__(self, turn: _Optional[_Union[_record_pb2.TurnRow, _Mapping]] = ..., dispatches: _Optional[_Iterable[_Union[_record_pb2.RecordedDispatch, _Mapping]]] = ..., children: _Optional[_Iterable[_Union[_record_pb2.RecordedChild, _Mapping]]] = ..., routing_decision: _Optional[_Union[_routing_pb2.RoutingDecision, _Mapping]] = ..., narration: _Optional[str] = ..., close_reason: _Optional[_Union[_outcome_pb2.TurnCloseReason, str]] = ..., texts_left_out: _Optional[int] = ..., events_left_out: _Optional[int] = ..., scores: _Optional[_Iterable[_Union[_record_pb2.RecordedScore, _Mapping]]] = ...) -> None: ...

class RecordScoreRequest(_message.Message):
    __slots__ = ("score_id", "turn_id", "dispatch_id", "call_id", "name", "value", "label", "source", "explanation", "principal")
    SCORE_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    score_id: str
    turn_id: str
    dispatch_id: str
    call_id: str
    name: str
    value: float
    label: str
    source: _record_pb2.ScoreSource
    explanation: str
    principal: str
    def __init__(self, score_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., dispatch_id: _Optional[str] = ..., call_id: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[float] = ..., label: _Optional[str] = ..., source: _Optional[_Union[_record_pb2.ScoreSource, str]] = ..., explanation: _Optional[str] = ..., principal: _Optional[str] = ...) -> None: ...

class RecordScoreResponse(_message.Message):
    __slots__ = ("sub_agent_id", "definition_id", "definition_digest", "arm", "recorded_before")
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    RECORDED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    sub_agent_id: str
    definition_id: str
    definition_digest: str
    arm: str
    recorded_before: bool
    def __init__(self, sub_agent_id: _Optional[str] = ..., definition_id: _Optional[str] = ..., definition_digest: _Optional[str] = ..., arm: _Optional[str] = ..., recorded_before: _Optional[bool] = ...) -> None: ...

class SeenUpTo(_message.Message):
    __slots__ = ("child_id", "sequence")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    sequence: int
    def __init__(self, child_id: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("turn_id", "after")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    after: _containers.RepeatedCompositeFieldContainer[SeenUpTo]
    def __init__(self, turn_id: _Optional[str] = ..., after: _Optional[_Iterable[_Union[SeenUpTo, _Mapping]]] = ...) -> None: ...

class WatchEventsResponse(_message.Message):
    __slots__ = ("children", "events", "ended")
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    children: _containers.RepeatedCompositeFieldContainer[_record_pb2.RecordedChild]
    events: _containers.RepeatedCompositeFieldContainer[_record_pb2.ChildEvent]
    ended: bool
    def __init__(self, children: _Optional[_Iterable[_Union[_record_pb2.RecordedChild, _Mapping]]] = ..., events: _Optional[_Iterable[_Union[_record_pb2.ChildEvent, _Mapping]]] = ..., ended: _Optional[bool] = ...) -> None: ...

class ListEpisodesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEpisodesResponse(_message.Message):
    __slots__ = ("episodes", "as_of", "next_page_token")
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    episodes: _containers.RepeatedCompositeFieldContainer[_record_pb2.EpisodeRow]
    as_of: _timestamp_pb2.Timestamp
    next_page_token: str
    def __init__(self, episodes: _Optional[_Iterable[_Union[_record_pb2.EpisodeRow, _Mapping]]] = ..., as_of: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExportReplayRequest(_message.Message):
    __slots__ = ("turn_id",)
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    def __init__(self, turn_id: _Optional[str] = ...) -> None: ...

class ExportReplayResponse(_message.Message):
    __slots__ = ("document_json",)
    DOCUMENT_JSON_FIELD_NUMBER: _ClassVar[int]
    document_json: str
    def __init__(self, document_json: _Optional[str] = ...) -> None: ...
