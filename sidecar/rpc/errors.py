"""Maps the sidecar's exceptions to gRPC statuses with one table, and builds the `google.rpc` details of a status.

Source: AIP-193.
"""

from collections.abc import Sequence
from typing import Final

from google.protobuf.any_pb2 import Any as PackedAny
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, ResourceInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from msgspec import Struct

from sidecar.core.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    DependencyUnavailable,
    FeatureUnsupported,
    FieldProblem,
    InternalError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    Refused,
    SubagentsError,
    Unauthenticated,
)

DOMAIN: Final = "sidecar.subagents"
"""`ErrorInfo.domain`: by it, clients distinguish the sidecar's reasons from those of a proxy."""
DETAILS_KEY: Final = "grpc-status-details-bin"
"""The trailing metadata in which gRPC's libraries look for the details."""
MOST_FIELDS: Final = 16
"""The most field problems in a status: it travels in a header, and gRPC clients accept 8 KiB of headers by default."""
LONGEST_TEXT: Final = 256
"""The most characters of one description or metadata value."""
LONGEST_MESSAGE: Final = 512
"""The most characters of the message of a status."""

STATUS_OF: Final[dict[type[SubagentsError], StatusCode]] = {
    InvalidRequest: StatusCode.INVALID_ARGUMENT,
    NotFound: StatusCode.NOT_FOUND,
    Refused: StatusCode.FAILED_PRECONDITION,
    FeatureUnsupported: StatusCode.UNIMPLEMENTED,
    Conflict: StatusCode.ABORTED,
    AlreadyExists: StatusCode.ALREADY_EXISTS,
    Unauthenticated: StatusCode.UNAUTHENTICATED,
    NotAllowed: StatusCode.PERMISSION_DENIED,
    Overloaded: StatusCode.RESOURCE_EXHAUSTED,
    DeadlineExceeded: StatusCode.DEADLINE_EXCEEDED,
    DependencyUnavailable: StatusCode.UNAVAILABLE,
    InternalError: StatusCode.INTERNAL,
}
"""An error gets the status of its most specific base class in this table."""


class RichStatus(Struct, frozen=True):
    """The status of a failed RPC. `trailing_metadata` has the details, serialized."""

    code: StatusCode
    message: str
    trailing_metadata: tuple[tuple[str, bytes], ...]


def status_of(error: SubagentsError) -> StatusCode:
    """Return the gRPC status of an error."""
    # In the order of the class hierarchy, so that a new error needs no row if its base class has one.
    return next((STATUS_OF[base] for base in type(error).__mro__ if base in STATUS_OF), StatusCode.INTERNAL)


def rich_status(error: SubagentsError) -> RichStatus:
    """Return the status of an error with its `google.rpc` details, small enough for every client."""
    code = status_of(error)
    message = error.message[:LONGEST_MESSAGE]
    number: tuple[int, str] = code.value
    # Twice on the wire: as the status of the call, and within its details, as gRPC's convention wants it.
    status = Status(code=number[0], message=message, details=[_pack(detail) for detail in _details(error)])
    return RichStatus(code, message, ((DETAILS_KEY, status.SerializeToString()),))


def _details(error: SubagentsError) -> Sequence[Message]:
    # Cut here, at the last place: with headers that are too large, a client sees another status.
    metadata = {key: value[:LONGEST_TEXT] for key, value in error.metadata.items()}
    details: list[Message] = [ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)]
    if error.fields:
        details.append(_bad_request(error.fields))
    if isinstance(error, NotFound):
        details.append(_resource(error))
    if error.retry_after is not None:
        # Only if waiting helps: a client must not repeat what would fail again.
        retry = RetryInfo()
        retry.retry_delay.FromTimedelta(error.retry_after)
        details.append(retry)
    return details


def _bad_request(fields: Sequence[FieldProblem]) -> BadRequest:
    shown = [
        BadRequest.FieldViolation(field=each.field[:LONGEST_TEXT], description=each.description[:LONGEST_TEXT])
        for each in fields[:MOST_FIELDS]
    ]
    return BadRequest(field_violations=shown)


def _resource(error: NotFound) -> ResourceInfo:
    """Return the resource that was not found; the metadata key of its id gives its kind, e.g. `child_id`."""
    key, name = next(((key, value) for key, value in error.metadata.items() if key.endswith("_id")), ("", ""))
    return ResourceInfo(resource_type=key.removesuffix("_id"), resource_name=name[:LONGEST_TEXT])


def _pack(message: Message) -> PackedAny:
    packed = PackedAny()
    packed.Pack(message)
    return packed
