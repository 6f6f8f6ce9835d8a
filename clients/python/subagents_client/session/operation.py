"""`LaneOperation`, one operation on a session lane, which is read like the call of a plain RPC."""

import asyncio
from collections import deque
from typing import Any, Final, Protocol

import grpc

from subagents.dispatch.v1 import dispatch_pb2

DETAILS_KEY: Final = "grpc-status-details-bin"
CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
EOF: Final = grpc.aio.EOF


class OperationNotSent(grpc.aio.AioRpcError):
    """A lane broke before the operation was sent. The sidecar has started nothing, so the operation can be repeated."""


class LaneClient(Protocol):
    """The methods of a lane that an operation uses."""

    def consumed(self, correlation_id: int, size: int) -> None:
        """Grant credit for `size` bytes of results that were read; `correlation_id` 0: credit of the lane only."""

    def abandon(self, correlation_id: int) -> None:
        """Tell the sidecar that the caller has stopped waiting for the operation."""


class LaneOperation:
    """An operation that was passed to a lane. `read` it to its end, or `cancel` it.

    Attributes:
        correlation_id: number of the operation on its lane, from 1.
        instance_id: id of the sidecar process at the other end of the lane.
    """

    def __init__(self, correlation_id: int, lane: LaneClient, instance_id: str) -> None:
        self.correlation_id = correlation_id
        self.instance_id = instance_id
        self._lane = lane
        self._results: deque[tuple[Any, int]] = deque()
        self._end: Exception | object | None = EOF
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._reader: asyncio.Future[None] | None = None

    async def read(self) -> Any:
        """Return the next response, or `EOF` at the end.

        Raises:
            grpc.aio.AioRpcError: the operation failed, or its lane broke.
            OperationNotSent: the lane broke before the operation was sent.
        """
        while not self._results:
            if self._over:
                if isinstance(self._end, Exception):
                    raise self._end
                return EOF
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        response, size = self._results.popleft()
        self._lane.consumed(0 if self._over else self.correlation_id, size)
        return response

    async def answer(self) -> Any:
        """Return the only response. Raises the errors of `read`."""
        return await self.read()

    def cancel(self) -> None:
        """Drop unread responses, and abandon the operation at the sidecar unless it has ended."""
        for _, size in self._results:
            self._lane.consumed(0, size)
        self._results.clear()
        if not self._over:
            self._over = True
            self._stop_timer()
            self._lane.abandon(self.correlation_id)

    @property
    def over(self) -> bool:
        """Whether the operation has ended or was cancelled."""
        return self._over

    def take(self, result: dispatch_pb2.SessionResult) -> bool:
        """Process a result from the lane; return whether it is the last one."""
        last = result.HasField("status")
        kind = result.WhichOneof("response")
        if self._over:
            self._lane.consumed(0, result.ByteSize() if kind else 0)
            return last
        if kind is not None:
            self._results.append((getattr(result, kind), result.ByteSize()))
        if last:
            self.end(_failure_of(result.status))
        else:
            self._wake()
        return last

    def expire_after(self, seconds: float) -> None:
        """Fail the operation after this time. The sidecar has an equal deadline, but may have become unreachable."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    def _expire(self) -> None:
        if not self._over:
            self.end(broken("the deadline has passed", code=grpc.StatusCode.DEADLINE_EXCEEDED))
            self._lane.abandon(self.correlation_id)

    def end(self, failure: Exception | None) -> None:
        """End the operation: `read` raises `failure` after the received responses; None: it returns `EOF`."""
        if not self._over:
            self._over, self._end = True, failure
            self._stop_timer()
            self._wake()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def broken(
    text: str,
    kind: type[grpc.aio.AioRpcError] = grpc.aio.AioRpcError,
    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE,
) -> grpc.aio.AioRpcError:
    """Return the exception of an operation whose lane broke, like that of a plain RPC whose connection broke."""
    return kind(code, grpc.aio.Metadata(), grpc.aio.Metadata(), text)


def _failure_of(status: dispatch_pb2.SessionStatus) -> Exception | None:
    if status.code == 0:
        return None
    trailer = grpc.aio.Metadata((DETAILS_KEY, status.details)) if status.details else grpc.aio.Metadata()
    code = CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailer, status.message)
