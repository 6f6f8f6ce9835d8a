import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.lifecycle.v1 import reading_pb2 as _reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FlagKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLAG_KIND_UNSPECIFIED: _ClassVar[FlagKind]
    FLAG_KIND_KILL: _ClassVar[FlagKind]
    FLAG_KIND_COHORT: _ClassVar[FlagKind]
FLAG_KIND_UNSPECIFIED: FlagKind
FLAG_KIND_KILL: FlagKind
FLAG_KIND_COHORT: FlagKind

class AffectedDefinition(_message.Message):
    __slots__ = ("slot", "definition_id", "digest", "state", "explanation")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    slot: str
    definition_id: str
    digest: str
    state: _reading_pb2.LifecycleState
    explanation: str
    def __init__(self, slot: _Optional[str] = ..., definition_id: _Optional[str] = ..., digest: _Optional[str] = ..., state: _Optional[_Union[_reading_pb2.LifecycleState, str]] = ..., explanation: _Optional[str] = ...) -> None: ...

class FlagSwitch(_message.Message):
    __slots__ = ("kind", "name", "backend", "before", "after", "version", "affected")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AFFECTED_FIELD_NUMBER: _ClassVar[int]
    kind: FlagKind
    name: str
    backend: str
    before: _reading_pb2.FlagValue
    after: _reading_pb2.FlagValue
    version: int
    affected: _containers.RepeatedCompositeFieldContainer[AffectedDefinition]
    def __init__(self, kind: _Optional[_Union[FlagKind, str]] = ..., name: _Optional[str] = ..., backend: _Optional[str] = ..., before: _Optional[_Union[_reading_pb2.FlagValue, str]] = ..., after: _Optional[_Union[_reading_pb2.FlagValue, str]] = ..., version: _Optional[int] = ..., affected: _Optional[_Iterable[_Union[AffectedDefinition, _Mapping]]] = ...) -> None: ...

class NamedFlag(_message.Message):
    __slots__ = ("kind", "name", "value", "version", "changed_at", "changed_by", "shared_with")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    SHARED_WITH_FIELD_NUMBER: _ClassVar[int]
    kind: FlagKind
    name: str
    value: _reading_pb2.FlagValue
    version: int
    changed_at: _timestamp_pb2.Timestamp
    changed_by: str
    shared_with: _containers.RepeatedCompositeFieldContainer[AffectedDefinition]
    def __init__(self, kind: _Optional[_Union[FlagKind, str]] = ..., name: _Optional[str] = ..., value: _Optional[_Union[_reading_pb2.FlagValue, str]] = ..., version: _Optional[int] = ..., changed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., changed_by: _Optional[str] = ..., shared_with: _Optional[_Iterable[_Union[AffectedDefinition, _Mapping]]] = ...) -> None: ...

class DefinitionFlags(_message.Message):
    __slots__ = ("slot", "revision", "definition_id", "digest", "state", "active", "flag_pair", "flags", "backend", "writable")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    FLAG_PAIR_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    WRITABLE_FIELD_NUMBER: _ClassVar[int]
    slot: str
    revision: int
    definition_id: str
    digest: str
    state: _reading_pb2.LifecycleState
    active: bool
    flag_pair: _reading_pb2.FlagPair
    flags: _containers.RepeatedCompositeFieldContainer[NamedFlag]
    backend: _reading_pb2.BackendStatus
    writable: bool
    def __init__(self, slot: _Optional[str] = ..., revision: _Optional[int] = ..., definition_id: _Optional[str] = ..., digest: _Optional[str] = ..., state: _Optional[_Union[_reading_pb2.LifecycleState, str]] = ..., active: _Optional[bool] = ..., flag_pair: _Optional[_Union[_reading_pb2.FlagPair, str]] = ..., flags: _Optional[_Iterable[_Union[NamedFlag, _Mapping]]] = ..., backend: _Optional[_Union[_reading_pb2.BackendStatus, _Mapping]] = ..., writable: _Optional[bool] = ...) -> None: ...

class GetFlagsRequest(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class GetFlagsResponse(_message.Message):
    __slots__ = ("definitions",)
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    definitions: _containers.RepeatedCompositeFieldContainer[DefinitionFlags]
    def __init__(self, definitions: _Optional[_Iterable[_Union[DefinitionFlags, _Mapping]]] = ...) -> None: ...
