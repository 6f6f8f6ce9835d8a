"""`sidecar health`: ask the running sidecar whether it takes turns; for an image's health check and for people."""

from contextlib import closing
from datetime import timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Final, TextIO

READY: Final = 0
NOT_READY: Final = 1
PATH: Final = "/readyz"
LONGEST_ANSWER: Final = 1024
"""Characters of the answer that are shown."""


def health(ops_address: str, patience: timedelta, out: TextIO) -> int:
    """Print what the sidecar answers.

    Args:
        ops_address: `server.ops_address` of its settings, e.g. `127.0.0.1:9464`.
        patience: longest wait for each step of asking.
        out: where to print.

    Returns:
        The exit code: 0 if it is ready; 1 if it says no, or does not answer.
    """
    try:
        with closing(HTTPConnection(ops_address, timeout=patience.total_seconds())) as connection:
            connection.request("GET", PATH)
            answer = connection.getresponse()
            said = answer.read(LONGEST_ANSWER).decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as problem:
        out.write(f"no answer at {ops_address}: {problem}; is the sidecar running with this server.ops_address?\n")
        return NOT_READY
    ready = answer.status == HTTPStatus.OK
    out.write(f"{'ready' if ready else 'not ready'} ({answer.status}){': ' if said else ''}{said}\n")
    return READY if ready else NOT_READY
