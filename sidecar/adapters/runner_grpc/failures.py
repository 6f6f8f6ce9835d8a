"""Classifies a failed `Run`: whether another attempt may succeed, and whether the host was reachable.

Texts of a host are shown only to operators, truncated and without control characters.
"""

from typing import Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from sidecar.policy.faults import grpc_fault
from sidecar.policy.protocols import RunnerError
from subagents_errors import CallFailure, DefinitionNotHeld, Draining

DOMAIN: Final = "sidecar.subagents"
DETAILS_KEY: Final = "grpc-status-details-bin"
LONGEST_DETAIL: Final = 200
"""The most characters of a host's text that are kept."""
SETTING: Final = "its address: `[targets]`, or `runner.target` of its card"
TOO_LARGE: Final = "message larger than max"
"""gRPC distinguishes its own size limit from a busy host only by this text."""


def reason_in(failure: grpc.aio.AioRpcError) -> str:
    """Return the `ErrorInfo.reason` of a host that uses the shared errors; empty for any other failure."""
    for key, value in failure.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return _reason(value)
    return ""


def lacks_definition(failure: grpc.aio.AioRpcError) -> bool:
    """Return whether the host lacks the definition with the digest."""
    return reason_in(failure) == DefinitionNotHeld.reason


def error_of(failure: grpc.aio.AioRpcError, target: str, *, heard: bool) -> RunnerError:
    """Return the error of a failed `Run`.

    Args:
        failure: the exception of gRPC.
        target: of the host.
        heard: whether the host had sent an event before the failure.
    """
    code, reason, text = failure.code(), reason_in(failure), failure.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE in text:
        return RunnerError(f"a message between sidecar and host was too large: {printable(text)}")
    detail = f"the host ended the attempt with {code.name}{f' {printable(reason)}' if reason else ''}"
    if text and reason in {"", CallFailure.RUNNER_FAILED}:
        detail = f"{detail}: {printable(text)}"
    # A host that returns an error of its own was reachable, unless it is shutting down.
    if code is grpc.StatusCode.UNAVAILABLE and reason in {"", Draining.reason}:
        fault = grpc_fault(target, code.name, text, SETTING)
        return RunnerError(detail, transient=True, unreachable=not heard, connection_lost=heard, fault=fault)
    # No event until the deadline: the connection may be dead without either side knowing.
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and not reason and not heard:
        fault = grpc_fault(target, code.name, "", SETTING)
        return RunnerError(detail, connection_lost=True, fault=fault)
    # The host answered, so it does not count as unreachable, not even with `UNAVAILABLE` and a reason of its own.
    return RunnerError(detail, transient=code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})


def printable(text: str) -> str:
    """Return the beginning of a foreign text, safe for a log line."""
    return "".join(char if char.isprintable() else "?" for char in text[:LONGEST_DETAIL])


def _reason(raw: bytes) -> str:
    try:
        for packed in Status.FromString(raw).details:
            info = ErrorInfo()
            if packed.Unpack(info) and info.domain == DOMAIN:
                return info.reason
    # A host may send any bytes. Without a readable reason, the status code alone decides.
    except DecodeError:
        pass
    return ""
