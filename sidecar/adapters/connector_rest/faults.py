"""Where the way to an HTTP service broke, for log and timeline. Holds nothing that the service or the user wrote."""

from typing import Final
from urllib.parse import urlsplit

from sidecar.core.faults import Fault, remedy_for
from sidecar.policy.faults import errno_of
from sidecar.policy.protocols import EnricherRefused, EnricherReply, RefusalKind

SETTING: Final = "the tool's `endpoint`"
OK: Final = 200


def fault_behind(error: Exception, endpoint: str) -> Fault:
    """Return the fault behind what the HTTP client raised; without an errno its class says what happened."""
    errno = errno_of(error)
    return Fault(_target(endpoint), _address(endpoint), errno or type(error).__name__, remedy_for(errno, SETTING))


def with_status(reply: EnricherReply, status: int, endpoint: str) -> EnricherReply:
    """Return a reply, with the HTTP status if that is why there is no envelope."""
    if not isinstance(reply, EnricherRefused) or reply.kind is not RefusalKind.UNAVAILABLE or status == OK:
        return reply
    remedy = f"the service answered, but with no envelope: see its log, or correct {SETTING}"
    return EnricherRefused(reply.kind, Fault(_target(endpoint), _address(endpoint), f"HTTP {status}", remedy))


def _target(endpoint: str) -> str:
    return endpoint.partition("?")[0]  # a query may hold a key


def _address(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
