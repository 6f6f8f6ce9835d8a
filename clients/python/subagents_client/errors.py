"""Translates failed RPCs into the shared exceptions, and exceptions into the trailers of failed RPCs.

`subagents_errors` defines the classes; this module also exports them. If the sidecar explained the
failure (`google.rpc.ErrorInfo` of its domain), the exception has the class of the reason, with message, fields,
metadata and `retry_after`. A reason that this version does not know becomes the base class of its status, and so does a
failure of the transport.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar

import grpc
from google.protobuf.any_pb2 import Any as PackedAny
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from subagents_client.session.operation import DETAILS_KEY, OperationNotSent
from subagents_errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    DependencyUnavailable,
    FieldProblem,
    InternalError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    Overloaded,
    Refused,
    SubagentsError,
    Unauthenticated,
    error_of_reason,
)

DOMAIN: Final = "sidecar.subagents"
"""`ErrorInfo.domain` of failures that a sidecar explains. Details of other domains, e.g. of a proxy, are ignored."""

PAGE: Final = "docs/errors.md"
"""The page that explains every reason; its anchors are the reasons in lower case."""

Detail = TypeVar("Detail", bound=Message)

STATUS_OF: Final[dict[type[SubagentsError], grpc.StatusCode]] = {
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Refused: grpc.StatusCode.FAILED_PRECONDITION,
    Conflict: grpc.StatusCode.ABORTED,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotAllowed: grpc.StatusCode.PERMISSION_DENIED,
    Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    DependencyUnavailable: grpc.StatusCode.UNAVAILABLE,
    InternalError: grpc.StatusCode.INTERNAL,
}
"""Base class to status. A subclass has the status of its base."""

CLASS_OF: Final = {code: cls for cls, code in STATUS_OF.items()} | {
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.CANCELLED: DependencyUnavailable,
}
"""Status to base class; any other status is an `InternalError`.

gRPC answers CANCELLED for a call that a stopping sidecar leaves behind. A caller's own cancellation never arrives here.
"""


ADVICE: Final[dict[type[SubagentsError], str]] = {
    DependencyUnavailable: "check that the sidecar runs and that the address is its socket, then try again",
    DeadlineExceeded: "try again with a longer timeout; see ClientTimeouts",
    Overloaded: "send less at a time, and come back after `retry_after` if it is set",
    Unauthenticated: "check that the boot secret is the one that the sidecar wrote at its last start",
    NotAllowed: "use a socket and credentials that this request is meant for",
    InvalidRequest: "correct the request; `fields` says what is wrong where",
    NotFound: "check the id; the sidecar may have been restarted since, then bind again",
    Conflict: "read the present state, then decide again",
    SubagentsError: "do not repeat the request as it is; the sidecar's log has the details",
}
"""What a caller can do, by base class."""


def status_of(cls: type[SubagentsError]) -> grpc.StatusCode:
    """Return the status with which exceptions of a class are sent."""
    return next((STATUS_OF[base] for base in cls.__mro__ if base in STATUS_OF), grpc.StatusCode.INTERNAL)


def error_from(failure: grpc.aio.AioRpcError, method: str, target: str = "") -> SubagentsError:
    """Return the exception for a failed RPC.

    Args:
        failure: the exception of gRPC.
        method: name of the RPC, for messages.
        target: address of the sidecar, for messages; empty: unknown.
    """
    return error_and_origin(failure, method, target)[0]


def error_and_origin(failure: grpc.aio.AioRpcError, method: str, target: str = "") -> tuple[SubagentsError, bool]:
    """Return the exception for a failed RPC, and whether the sidecar itself answered.

    False for a failure of the transport or of a proxy in between: then it is unknown whether the sidecar ran the
    request. True also for `OperationNotSent`, after which the sidecar certainly did not run it.
    """
    code = failure.code()
    sent = not isinstance(failure, OperationNotSent)
    base = CLASS_OF.get(code, InternalError)
    status = _status_in(failure)
    info = _first(status, ErrorInfo)
    if status is None or info is None or info.domain != DOMAIN:
        return base(_unexplained(code, method, target), metadata={"status": code.name}), not sent
    cls = error_of_reason(info.reason) or base
    error = cls(
        status.message or f"{method} failed ({info.reason})",
        metadata=dict(info.metadata),
        fields=_fields(status),
        retry_after=_retry_after(status),
    )
    # This version does not know the reason, so the class is a base class. The metadata preserve the reason.
    if cls.reason != info.reason:
        error.metadata = {**error.metadata, "reason": info.reason}
    advice = f"{ADVICE.get(base, ADVICE[SubagentsError])} ({PAGE}#{info.reason.lower()})"
    error.add_note(f"{_where(method, target)} failed ({info.reason}): {advice}")
    return error, True


def unreachable(method: str, target: str = "") -> str:
    """Return the message about a sidecar that cannot be reached."""
    return f"no answer to {_where(method, target)}: {ADVICE[DependencyUnavailable]}"


def _unexplained(code: grpc.StatusCode, method: str, target: str) -> str:
    """Return the message about a failure that the sidecar did not explain.

    It does not quote the transport's text, which may contain anything.
    """
    advice = ADVICE.get(CLASS_OF.get(code, InternalError), ADVICE[SubagentsError])
    return f"no answer to {_where(method, target)} ({code.name}): {advice}"


def _where(method: str, target: str) -> str:
    return f"{method} at {target}" if target else method


def trailer_of(error: SubagentsError, reason: str | None = None) -> Sequence[tuple[str, bytes]]:
    """Return the trailing metadata that carries an exception to the client.

    Args:
        error: the exception.
        reason: replaces the reason of its class, for reasons that have no class.
    """
    details: list[Message] = [ErrorInfo(reason=reason or error.reason, domain=DOMAIN, metadata=dict(error.metadata))]
    if error.fields:
        details.append(_bad_request(error.fields))
    if error.retry_after is not None:
        retry = RetryInfo()
        retry.retry_delay.FromTimedelta(error.retry_after)
        details.append(retry)
    code: tuple[int, str] = status_of(type(error)).value
    status = Status(code=code[0], message=error.message, details=[_packed(one) for one in details])
    return ((DETAILS_KEY, status.SerializeToString()),)


def _packed(message: Message) -> PackedAny:
    packed = PackedAny()
    packed.Pack(message)
    return packed


def _bad_request(fields: Sequence[FieldProblem]) -> BadRequest:
    violations = [BadRequest.FieldViolation(field=one.field, description=one.description) for one in fields]
    return BadRequest(field_violations=violations)


def _status_in(failure: grpc.aio.AioRpcError) -> Status | None:
    for key, value in failure.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return Status.FromString(value)
            except DecodeError:
                return None
    return None


def _first(status: Status | None, kind: type[Detail]) -> Detail | None:
    for packed in status.details if status else ():
        detail = kind()
        try:
            if packed.Unpack(detail):
                return detail
        except DecodeError:
            return None
    return None


def _fields(status: Status) -> Sequence[FieldProblem]:
    found = _first(status, BadRequest)
    return [FieldProblem(one.field, one.description) for one in found.field_violations] if found else []


def _retry_after(status: Status) -> timedelta | None:
    found = _first(status, RetryInfo)
    return found.retry_delay.ToTimedelta() if found and found.HasField("retry_delay") else None
