import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class QuestionKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUESTION_KIND_UNSPECIFIED: _ClassVar[QuestionKind]
    QUESTION_KIND_NEEDS_INPUT: _ClassVar[QuestionKind]
    QUESTION_KIND_NEEDS_APPROVAL: _ClassVar[QuestionKind]
    QUESTION_KIND_NEEDS_AUTHORISATION: _ClassVar[QuestionKind]

class Answerer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWERER_UNSPECIFIED: _ClassVar[Answerer]
    ANSWERER_USER: _ClassVar[Answerer]
    ANSWERER_ORCHESTRATOR: _ClassVar[Answerer]

class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_UNSPECIFIED: _ClassVar[Decision]
    DECISION_APPROVED: _ClassVar[Decision]
    DECISION_DECLINED: _ClassVar[Decision]
QUESTION_KIND_UNSPECIFIED: QuestionKind
QUESTION_KIND_NEEDS_INPUT: QuestionKind
QUESTION_KIND_NEEDS_APPROVAL: QuestionKind
QUESTION_KIND_NEEDS_AUTHORISATION: QuestionKind
ANSWERER_UNSPECIFIED: Answerer
ANSWERER_USER: Answerer
ANSWERER_ORCHESTRATOR: Answerer
DECISION_UNSPECIFIED: Decision
DECISION_APPROVED: Decision
DECISION_DECLINED: Decision

class Question(_message.Message):
    __slots__ = ("kind", "text", "about_json", "answerer", "expires_at", "receipt")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ABOUT_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    kind: QuestionKind
    text: str
    about_json: str
    answerer: Answerer
    expires_at: _timestamp_pb2.Timestamp
    receipt: str
    def __init__(self, kind: _Optional[_Union[QuestionKind, str]] = ..., text: _Optional[str] = ..., about_json: _Optional[str] = ..., answerer: _Optional[_Union[Answerer, str]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., receipt: _Optional[str] = ...) -> None: ...

class Answering(_message.Message):
    __slots__ = ("receipt", "text", "decision", "answered_by")
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    receipt: str
    text: str
    decision: Decision
    answered_by: Answerer
    def __init__(self, receipt: _Optional[str] = ..., text: _Optional[str] = ..., decision: _Optional[_Union[Decision, str]] = ..., answered_by: _Optional[_Union[Answerer, str]] = ...) -> None: ...
