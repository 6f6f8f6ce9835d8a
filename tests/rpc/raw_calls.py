"""Calls with bytes and metadata of a test's choice, past everything that a stub would put right."""

from collections.abc import Sequence
from typing import Any

import grpc

from tests.support.requests import Failure, stream_failure_of

DISPATCH = "/subagents.dispatch.v1.DispatchService/"
DISPATCH_METHODS = ("BindTurn", "Dispatch", "DispatchUnary", "ResumeDispatch", "CancelCall", "CloseChild", "EndTurn")
CALL_TOOL = "/subagents.tools.v1.ToolGatewayService/CallTool"

TRUNCATED = b"\x0a\x10abc"
BAD_UTF8 = b"\x0a\x02\xff\xfe"
DEEP = b"\x9b\x06" * 10_000 + b"\x9c\x06" * 10_000
"""Groups within groups of a field that nobody declares."""


def raw(
    channel: grpc.aio.Channel,
    method: str,
    body: bytes = b"",
    metadata: Sequence[tuple[str, str | bytes]] = (),
    seconds: float | None = 10.0,
) -> Any:
    """Start a call; the answers are bytes. Serves unary methods too: on the wire they are streams of one."""
    start: Any = channel.unary_stream(method)
    return start(body, timeout=seconds, metadata=tuple(metadata))


async def raw_failure(
    channel: grpc.aio.Channel,
    method: str,
    body: bytes = b"",
    metadata: Sequence[tuple[str, str | bytes]] = (),
    seconds: float | None = 10.0,
) -> Failure:
    """Make a call that has to fail."""
    return await stream_failure_of(raw(channel, method, body, metadata, seconds))
