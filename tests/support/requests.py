"""Whole requests of `DispatchService`, and failed RPCs as values."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from subagents.dispatch.v1 import dispatch_pb2 as pb

DETAILS_KEY = "grpc-status-details-bin"


def a_bind(**fields: Any) -> pb.BindTurnRequest:
    """Return a request that binds a turn; any field may be given."""
    given: dict[str, Any] = {
        "turn_id": "turn-1",
        "episode_id": "episode-1",
        "principal": "user-1",
        "source": pb.TURN_SOURCE_CHAT,
    }
    return pb.BindTurnRequest(**(given | fields))


def some_calls(*calls: str | pb.ToolCall) -> list[pb.ToolCall]:
    """Return calls of the tools that are named, with ids `call-1`, `call-2` and so on; whole calls stay as they are."""
    return [
        call if isinstance(call, pb.ToolCall) else a_call(f"call-{place}", call)
        for place, call in enumerate(calls, start=1)
    ]


def a_call(call_id: str, tool: str, arguments_json: str = '{"request": "what is new?"}') -> pb.ToolCall:
    """Return a call."""
    return pb.ToolCall(call_id=call_id, tool_name=tool, arguments_json=arguments_json)


@dataclass(frozen=True, slots=True)
class Failure:
    """How an RPC failed.

    Attributes:
        reason: of `ErrorInfo`; empty if there is none.
        fields: field path to what is wrong with it.
        retry_after: seconds; None without advice.
    """

    code: grpc.StatusCode
    message: str
    reason: str
    metadata: dict[str, str]
    fields: dict[str, str]
    retry_after: float | None


async def failure_of(rpc: Awaitable[Any]) -> Failure:
    """Await an RPC that has to fail and return how it did."""
    try:
        answer = await rpc
    except grpc.aio.AioRpcError as error:
        return failure_from(error)
    raise AssertionError(f"the RPC did not fail but answered {answer!r:.500}")


async def stream_failure_of(stream: Any) -> Failure:
    """Read a stream that has to fail and return how it did."""

    async def read() -> int:
        return len([message async for message in stream])

    return await failure_of(read())


def failure_from(error: grpc.aio.AioRpcError) -> Failure:
    """Return the parts of a failed RPC."""
    trailers = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, bytes)}
    status = Status.FromString(trailers.get(DETAILS_KEY, b""))
    info, bad, retry = ErrorInfo(), BadRequest(), RetryInfo()
    for detail in status.details:
        for known in (info, bad, retry):
            detail.Unpack(known)
    return Failure(
        code=error.code(),
        message=error.details() or "",
        reason=info.reason,
        metadata=dict(info.metadata),
        fields={each.field: each.description for each in bad.field_violations},
        retry_after=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
    )
