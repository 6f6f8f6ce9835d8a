"""Ties log lines to the trace that a client sent with its call. Used if telemetry is on without gRPC spans."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from grpc import StatusCode

from sidecar.operations.trace_context import LOGGED, trace_of

LANE: Final = "/subagents.dispatch.v1.DispatchService/Session"
"""A lane lasts for many turns, so each of its operations has a trace of its own."""


class LogTraces(grpc.aio.ServerInterceptor):
    """Sets the trace of each call, in the task that gRPC has created for the call."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Set the trace; the handler stays as it is."""
        if is_not_lane(handler_call_details):
            LOGGED.set(trace_of(handler_call_details.invocation_metadata))
        return await continuation(handler_call_details)


def is_not_lane(details: grpc.HandlerCallDetails) -> bool:
    """Return whether a call has a trace of its own."""
    return details.method != LANE


@contextmanager
def operation_trace(_: str, metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[Callable[[StatusCode, str], None]]:
    """Set the trace of one operation of a lane, in the operation's own task. There is no span that needs a status."""
    LOGGED.set(trace_of(metadata))
    yield lambda _code, _message: None
