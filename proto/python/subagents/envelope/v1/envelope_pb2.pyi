from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnvelopeStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENVELOPE_STATUS_UNSPECIFIED: _ClassVar[EnvelopeStatus]
    ENVELOPE_STATUS_OK: _ClassVar[EnvelopeStatus]
    ENVELOPE_STATUS_PARTIAL: _ClassVar[EnvelopeStatus]
    ENVELOPE_STATUS_ERROR: _ClassVar[EnvelopeStatus]
ENVELOPE_STATUS_UNSPECIFIED: EnvelopeStatus
ENVELOPE_STATUS_OK: EnvelopeStatus
ENVELOPE_STATUS_PARTIAL: EnvelopeStatus
ENVELOPE_STATUS_ERROR: EnvelopeStatus

class EnricherRequest(_message.Message):
    __slots__ = ("principal", "domain_type", "enricher_id", "arguments_json", "nonce")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENRICHER_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    domain_type: str
    enricher_id: str
    arguments_json: str
    nonce: str
    def __init__(self, principal: _Optional[str] = ..., domain_type: _Optional[str] = ..., enricher_id: _Optional[str] = ..., arguments_json: _Optional[str] = ..., nonce: _Optional[str] = ...) -> None: ...

class EnricherResponse(_message.Message):
    __slots__ = ("domain_type", "enricher_id", "version", "principal", "status", "payload_json", "partial", "cache_meta", "nonce", "signature")
    DOMAIN_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENRICHER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    CACHE_META_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    domain_type: str
    enricher_id: str
    version: str
    principal: str
    status: EnvelopeStatus
    payload_json: str
    partial: _containers.RepeatedCompositeFieldContainer[FailedSource]
    cache_meta: CacheMeta
    nonce: str
    signature: str
    def __init__(self, domain_type: _Optional[str] = ..., enricher_id: _Optional[str] = ..., version: _Optional[str] = ..., principal: _Optional[str] = ..., status: _Optional[_Union[EnvelopeStatus, str]] = ..., payload_json: _Optional[str] = ..., partial: _Optional[_Iterable[_Union[FailedSource, _Mapping]]] = ..., cache_meta: _Optional[_Union[CacheMeta, _Mapping]] = ..., nonce: _Optional[str] = ..., signature: _Optional[str] = ...) -> None: ...

class FailedSource(_message.Message):
    __slots__ = ("source", "critical")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CRITICAL_FIELD_NUMBER: _ClassVar[int]
    source: str
    critical: bool
    def __init__(self, source: _Optional[str] = ..., critical: _Optional[bool] = ...) -> None: ...

class CacheMeta(_message.Message):
    __slots__ = ("cached", "cacheable", "ttl_seconds", "key")
    CACHED_FIELD_NUMBER: _ClassVar[int]
    CACHEABLE_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    cached: bool
    cacheable: bool
    ttl_seconds: int
    key: str
    def __init__(self, cached: _Optional[bool] = ..., cacheable: _Optional[bool] = ..., ttl_seconds: _Optional[int] = ..., key: _Optional[str] = ...) -> None: ...
