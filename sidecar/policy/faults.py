"""Finds the operating system's error, e.g. ECONNREFUSED, in an exception of a transport, for `Fault.errno`.

Runners and connectors use it, so that an operator reads why a connection failed.
"""

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
"""The gRPC library reports the system's error only as text, at the end of a status message."""
GRPC_ADDRESS: Final = re.compile(r"last error: [A-Z_]+: ([!-~]{1,256}): ")
"""The address that gRPC tried last, as its message shows it."""
MOST_CAUSES: Final = 16
"""Causes of an exception that are searched. The limit matters for a plugin whose exceptions form a cycle."""


def errno_of(error: BaseException) -> str:
    """Return the name of the first errno in an exception and its causes; empty if there is none."""
    current: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if current is None:
            break
        # Some `OSError`s have no number, or one that the system does not know.
        number = current.errno if isinstance(current, OSError) else None
        if number is not None and number in errorcode:
            return errorcode[number]
        # Transports wrap the error of the system, with or without `from`.
        current = current.__cause__ or current.__context__
    return ""


def grpc_fault(target: str, status: str, text: str, setting: str) -> Fault:
    """Return the fault of a status that the local gRPC library created, e.g. because it could not connect.

    Args:
        target: the configured target.
        status: the code of the status, such as `UNAVAILABLE`; shown if the message contains no known error.
        text: the message of the gRPC library.
        setting: the name of the setting that contains the target, for the remedy.
    """
    # The message ends with the text of the system, after the last colon.
    errno = ERRNO_OF_TEXT.get(text.rpartition(": ")[2], "")
    address = GRPC_ADDRESS.search(text)
    return Fault(target, address[1] if address else target, errno or f"gRPC {status}", remedy_for(errno, setting))
