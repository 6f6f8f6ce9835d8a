"""Finds the operating system's error in an exception of a transport, for `Fault.errno`."""

import re
from collections.abc import Mapping
from errno import errorcode
from typing import Final

from sidecar.core.faults import Fault, remedy_for

ERRNO_OF_TEXT: Final[Mapping[str, str]] = {
    "No such file or directory": "ENOENT",
    "Connection refused": "ECONNREFUSED",
    "Permission denied": "EACCES",
    "Connection timed out": "ETIMEDOUT",
    "No route to host": "EHOSTUNREACH",
    "Network is unreachable": "ENETUNREACH",
    "Connection reset by peer": "ECONNRESET",
    "Broken pipe": "EPIPE",
}
"""The gRPC library passes the system's error on in words only, at the end of a status's message."""
GRPC_ADDRESS: Final = re.compile(r"last error: [A-Z_]+: ([!-~]{1,256}): ")
MOST_CAUSES: Final = 16


def errno_of(error: BaseException) -> str:
    """Return the name of the first errno among an exception and what it was raised from; empty if there is none."""
    found: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if found is None:
            break
        number = found.errno if isinstance(found, OSError) else None
        if number is not None and number in errorcode:
            return errorcode[number]
        found = found.__cause__ or found.__context__
    return ""


def grpc_fault(target: str, status: str, text: str, setting: str) -> Fault:
    """Return the fault behind a gRPC status that was not the peer's own.

    Args:
        target: as configured.
        status: its code, such as `UNAVAILABLE`.
        text: its message, as the gRPC library wrote it.
        setting: where the target is configured.
    """
    errno = ERRNO_OF_TEXT.get(text.rpartition(": ")[2], "")
    address = GRPC_ADDRESS.search(text)
    return Fault(target, address[1] if address else target, errno or f"gRPC {status}", remedy_for(errno, setting))
