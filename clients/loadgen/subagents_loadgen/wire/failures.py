"""Describes a failed RPC by its status and the reason in its `ErrorInfo`."""

from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

DETAILS_KEY = "grpc-status-details-bin"
UNEXPLAINED = "-"
"""The reason if the server did not answer or gave no `ErrorInfo`."""


def status_and_reason(error: grpc.RpcError) -> str:
    """Return e.g. `RESOURCE_EXHAUSTED ADMISSION_REFUSED`, or `UNAVAILABLE -` without a reason."""
    return f"{status_of(error).name} {reason_of(error)}"


def status_of(error: grpc.RpcError) -> grpc.StatusCode:
    """Return the status; what both kinds of stubs raise has it."""
    call: Any = error
    status: grpc.StatusCode = call.code()
    return status


def reason_of(error: grpc.RpcError) -> str:
    """Return the reason, e.g. `ADMISSION_REFUSED`; `-` without one."""
    call: Any = error
    for key, value in call.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            return _reason_in(value)
    return UNEXPLAINED


def _reason_in(details: bytes) -> str:
    info = ErrorInfo()
    try:
        for packed in Status.FromString(details).details:
            if packed.Unpack(info):
                return info.reason or UNEXPLAINED
    except DecodeError:
        pass
    return UNEXPLAINED
