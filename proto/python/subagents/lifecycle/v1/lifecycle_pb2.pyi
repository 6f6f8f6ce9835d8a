import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from subagents.lifecycle.v1 import activity_pb2 as _activity_pb2
from subagents.lifecycle.v1 import evidence_pb2 as _evidence_pb2
from subagents.lifecycle.v1 import flags_pb2 as _flags_pb2
from subagents.lifecycle.v1 import reading_pb2 as _reading_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StopReach(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REACH_UNSPECIFIED: _ClassVar[StopReach]
    STOP_REACH_REPLICA: _ClassVar[StopReach]
    STOP_REACH_FLAG: _ClassVar[StopReach]
    STOP_REACH_RECORD: _ClassVar[StopReach]
STOP_REACH_UNSPECIFIED: StopReach
STOP_REACH_REPLICA: StopReach
STOP_REACH_FLAG: StopReach
STOP_REACH_RECORD: StopReach

class StepHeader(_message.Message):
    __slots__ = ("definition_id", "slot", "digest", "expected_revision", "reason", "request_id", "dry_run")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    slot: str
    digest: str
    expected_revision: int
    reason: str
    request_id: str
    dry_run: bool
    def __init__(self, definition_id: _Optional[str] = ..., slot: _Optional[str] = ..., digest: _Optional[str] = ..., expected_revision: _Optional[int] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class StepResult(_message.Message):
    __slots__ = ("slot", "definition_id", "digest", "state", "ramp_basis_points", "active", "revision", "changed", "repeated", "gate_answers", "edits", "rollout_version", "reached", "warnings", "decommission", "flag")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    GATE_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSION_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    slot: str
    definition_id: str
    digest: str
    state: _reading_pb2.LifecycleState
    ramp_basis_points: int
    active: bool
    revision: int
    changed: bool
    repeated: bool
    gate_answers: _containers.RepeatedCompositeFieldContainer[_reading_pb2.GateAnswer]
    edits: _containers.RepeatedScalarFieldContainer[str]
    rollout_version: int
    reached: _containers.RepeatedScalarFieldContainer[StopReach]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    decommission: _reading_pb2.Decommission
    flag: _flags_pb2.FlagSwitch
    def __init__(self, slot: _Optional[str] = ..., definition_id: _Optional[str] = ..., digest: _Optional[str] = ..., state: _Optional[_Union[_reading_pb2.LifecycleState, str]] = ..., ramp_basis_points: _Optional[int] = ..., active: _Optional[bool] = ..., revision: _Optional[int] = ..., changed: _Optional[bool] = ..., repeated: _Optional[bool] = ..., gate_answers: _Optional[_Iterable[_Union[_reading_pb2.GateAnswer, _Mapping]]] = ..., edits: _Optional[_Iterable[str]] = ..., rollout_version: _Optional[int] = ..., reached: _Optional[_Iterable[_Union[StopReach, str]]] = ..., warnings: _Optional[_Iterable[str]] = ..., decommission: _Optional[_Union[_reading_pb2.Decommission, _Mapping]] = ..., flag: _Optional[_Union[_flags_pb2.FlagSwitch, _Mapping]] = ...) -> None: ...

class TransitionRequest(_message.Message):
    __slots__ = ("header", "target_state")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TARGET_STATE_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    target_state: _reading_pb2.LifecycleState
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., target_state: _Optional[_Union[_reading_pb2.LifecycleState, str]] = ...) -> None: ...

class TransitionResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class SetRampRequest(_message.Message):
    __slots__ = ("header", "ramp_basis_points")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    ramp_basis_points: int
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., ramp_basis_points: _Optional[int] = ...) -> None: ...

class SetRampResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class ConfigureRolloutRequest(_message.Message):
    __slots__ = ("header", "mode", "curve_basis_points")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CURVE_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    mode: _reading_pb2.RolloutMode
    curve_basis_points: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., mode: _Optional[_Union[_reading_pb2.RolloutMode, str]] = ..., curve_basis_points: _Optional[_Iterable[int]] = ...) -> None: ...

class ConfigureRolloutResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class RampDownRequest(_message.Message):
    __slots__ = ("header", "breach_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BREACH_ID_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    breach_id: str
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., breach_id: _Optional[str] = ...) -> None: ...

class RampDownResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class AcknowledgeBreachRequest(_message.Message):
    __slots__ = ("header", "breach_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BREACH_ID_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    breach_id: str
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., breach_id: _Optional[str] = ...) -> None: ...

class AcknowledgeBreachResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class OverrideGateRequest(_message.Message):
    __slots__ = ("header", "gate", "ramp_basis_points", "expires_at")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    GATE_FIELD_NUMBER: _ClassVar[int]
    RAMP_BASIS_POINTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    gate: str
    ramp_basis_points: int
    expires_at: _timestamp_pb2.Timestamp
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., gate: _Optional[str] = ..., ramp_basis_points: _Optional[int] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class OverrideGateResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class RollBackRequest(_message.Message):
    __slots__ = ("header", "target_digest", "leave_empty")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TARGET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEAVE_EMPTY_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    target_digest: str
    leave_empty: bool
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., target_digest: _Optional[str] = ..., leave_empty: _Optional[bool] = ...) -> None: ...

class RollBackResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class ActivateRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ...) -> None: ...

class ActivateResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class KillRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ...) -> None: ...

class KillResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class RetireFlagsRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ...) -> None: ...

class RetireFlagsResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class SwitchFlagOnRequest(_message.Message):
    __slots__ = ("header", "flag", "expected_version")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    flag: _flags_pb2.FlagKind
    expected_version: int
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., flag: _Optional[_Union[_flags_pb2.FlagKind, str]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class SwitchFlagOnResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class SwitchCohortFlagOffRequest(_message.Message):
    __slots__ = ("header", "expected_version")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    expected_version: int
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class SwitchCohortFlagOffResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class SwitchKillFlagOffRequest(_message.Message):
    __slots__ = ("header", "expected_version")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    expected_version: int
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class SwitchKillFlagOffResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class BeginDecommissionRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ...) -> None: ...

class BeginDecommissionResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class TakeDecommissionStepRequest(_message.Message):
    __slots__ = ("header", "step", "code", "confirmed")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    step: _reading_pb2.CleanupStep
    code: _reading_pb2.CodeStatus
    confirmed: str
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., step: _Optional[_Union[_reading_pb2.CleanupStep, str]] = ..., code: _Optional[_Union[_reading_pb2.CodeStatus, str]] = ..., confirmed: _Optional[str] = ...) -> None: ...

class TakeDecommissionStepResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class DecideDecommissionRequest(_message.Message):
    __slots__ = ("header", "subject", "choice")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    subject: _reading_pb2.CleanupSubject
    choice: _reading_pb2.CleanupChoice
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ..., subject: _Optional[_Union[_reading_pb2.CleanupSubject, str]] = ..., choice: _Optional[_Union[_reading_pb2.CleanupChoice, str]] = ...) -> None: ...

class DecideDecommissionResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...

class UndoDecommissionRequest(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: StepHeader
    def __init__(self, header: _Optional[_Union[StepHeader, _Mapping]] = ...) -> None: ...

class UndoDecommissionResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: StepResult
    def __init__(self, result: _Optional[_Union[StepResult, _Mapping]] = ...) -> None: ...
