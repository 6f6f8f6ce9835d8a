import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetRampEvidenceRequest(_message.Message):
    __slots__ = ("slot",)
    SLOT_FIELD_NUMBER: _ClassVar[int]
    slot: str
    def __init__(self, slot: _Optional[str] = ...) -> None: ...

class GetRampEvidenceResponse(_message.Message):
    __slots__ = ("ramps", "latency_bounds", "token_bounds")
    RAMPS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    ramps: _containers.RepeatedCompositeFieldContainer[RampEvidence]
    latency_bounds: _containers.RepeatedScalarFieldContainer[float]
    token_bounds: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, ramps: _Optional[_Iterable[_Union[RampEvidence, _Mapping]]] = ..., latency_bounds: _Optional[_Iterable[float]] = ..., token_bounds: _Optional[_Iterable[float]] = ...) -> None: ...

class RampEvidence(_message.Message):
    __slots__ = ("slot", "active_definition_id", "active_digest", "target_definition_id", "target_digest", "ramp_basis_points", "since", "curve_basis_points", "facts_behind", "unreadable_turns", "is_full", "blocks")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TARGET_DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    CURVE_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    FACTS_BEHIND_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_TURNS_FIELD_NUMBER: _ClassVar[int]
    IS_FULL_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    slot: str
    active_definition_id: str
    active_digest: str
    target_definition_id: str
    target_digest: str
    ramp_basis_points: int
    since: _timestamp_pb2.Timestamp
    curve_basis_points: _containers.RepeatedScalarFieldContainer[int]
    facts_behind: int
    unreadable_turns: int
    is_full: bool
    blocks: _containers.RepeatedCompositeFieldContainer[EvidenceBlock]
    def __init__(self, slot: _Optional[str] = ..., active_definition_id: _Optional[str] = ..., active_digest: _Optional[str] = ..., target_definition_id: _Optional[str] = ..., target_digest: _Optional[str] = ..., ramp_basis_points: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., curve_basis_points: _Optional[_Iterable[int]] = ..., facts_behind: _Optional[int] = ..., unreadable_turns: _Optional[int] = ..., is_full: _Optional[bool] = ..., blocks: _Optional[_Iterable[_Union[EvidenceBlock, _Mapping]]] = ...) -> None: ...

class EvidenceBlock(_message.Message):
    __slots__ = ("active", "target")
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    active: ArmCounts
    target: ArmCounts
    def __init__(self, active: _Optional[_Union[ArmCounts, _Mapping]] = ..., target: _Optional[_Union[ArmCounts, _Mapping]] = ...) -> None: ...

class ArmCounts(_message.Message):
    __slots__ = ("user_count", "call_count", "failures", "latency", "tokens", "scores")
    USER_COUNT_FIELD_NUMBER: _ClassVar[int]
    CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    user_count: int
    call_count: int
    failures: _containers.RepeatedCompositeFieldContainer[FailureCount]
    latency: _containers.RepeatedScalarFieldContainer[int]
    tokens: _containers.RepeatedScalarFieldContainer[int]
    scores: _containers.RepeatedCompositeFieldContainer[ScoreTotal]
    def __init__(self, user_count: _Optional[int] = ..., call_count: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[FailureCount, _Mapping]]] = ..., latency: _Optional[_Iterable[int]] = ..., tokens: _Optional[_Iterable[int]] = ..., scores: _Optional[_Iterable[_Union[ScoreTotal, _Mapping]]] = ...) -> None: ...

class FailureCount(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ScoreTotal(_message.Message):
    __slots__ = ("name", "count", "total")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    total: float
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., total: _Optional[float] = ...) -> None: ...
