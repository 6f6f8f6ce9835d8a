from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
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
