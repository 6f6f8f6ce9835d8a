"""Reads the error details of a failed call. `grpc_status` can do this, too, but imports gRPC for asyncio."""

from typing import Any, Final

from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

DETAILS_KEY: Final = "grpc-status-details-bin"


def error_info(error: Any) -> ErrorInfo:
    """Return the `ErrorInfo` of a failed call; empty if there is none, e.g. because no server answered."""
    info = ErrorInfo()
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            # `Unpack` fills `info` if the detail has its type; `any` stops at the first one.
            any(detail.Unpack(info) for detail in Status.FromString(value).details)
    return info
