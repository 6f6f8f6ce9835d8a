import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListActivePeriodsRequest(_message.Message):
    __slots__ = ("definition_id", "slot", "principal", "share_basis_points")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    SHARE_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    slot: str
    principal: str
    share_basis_points: int
    def __init__(self, definition_id: _Optional[str] = ..., slot: _Optional[str] = ..., principal: _Optional[str] = ..., share_basis_points: _Optional[int] = ...) -> None: ...

class ActivePeriod(_message.Message):
    __slots__ = ("started_at", "ended_at", "ramp_basis_points", "request_id")
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    ramp_basis_points: int
    request_id: str
    def __init__(self, started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ramp_basis_points: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ListActivePeriodsResponse(_message.Message):
    __slots__ = ("slot", "periods", "known_from")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PERIODS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FROM_FIELD_NUMBER: _ClassVar[int]
    slot: str
    periods: _containers.RepeatedCompositeFieldContainer[ActivePeriod]
    known_from: _timestamp_pb2.Timestamp
    def __init__(self, slot: _Optional[str] = ..., periods: _Optional[_Iterable[_Union[ActivePeriod, _Mapping]]] = ..., known_from: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
