"""What a failed call means to the gateway."""

from typing import Final

import grpc

from sidecar.policy.faults import grpc_fault
from sidecar.policy.protocols import EnricherRefused, RefusalKind

REFUSALS: Final = {
    (grpc.StatusCode.INVALID_ARGUMENT, "missing_principal"): RefusalKind.MISSING_PRINCIPAL,
    (grpc.StatusCode.PERMISSION_DENIED, "principal_mismatch"): RefusalKind.PRINCIPAL_MISMATCH,
}
"""Status and message of what a data service may refuse. Source: PC2-D-32, PC2-D-33."""
TOO_LARGE: Final = "message larger than max"
"""In the message that gRPC itself gives to RESOURCE_EXHAUSTED when an answer is over the limit."""


def refusal_of(failure: grpc.aio.AioRpcError, target: str) -> EnricherRefused:
    """Return why there is no envelope; the service's own words go no further than to find an errno in them."""
    status, message = failure.code(), failure.details() or ""
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return EnricherRefused(RefusalKind.TIMEOUT)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED and TOO_LARGE in message:
        return EnricherRefused(RefusalKind.TOO_LARGE)
    kind = REFUSALS.get((status, message), RefusalKind.UNAVAILABLE)
    if kind is not RefusalKind.UNAVAILABLE:
        return EnricherRefused(kind)
    return EnricherRefused(kind, grpc_fault(target, status.name, message, "the tool's `endpoint`"))
