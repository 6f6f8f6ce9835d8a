"""A connection that is made up: what gRPC is to the handlers of the RPC layer, in virtual time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import grpc

from sidecar.adapters.virtual_time import VirtualLoop

EOF: Final = grpc.aio.EOF
WINDOW: Final = 64 * 1024
"""Bytes that a handler may send before its client has read them, as HTTP/2 lets it."""
Metadata = Sequence[tuple[str, str]]


class ServerContext:
    """The call as its handler sees it; see `sidecar.rpc.methods.GrpcContext`."""

    def __init__(self, call: "WireCall", metadata: Metadata, ends_at: float | None) -> None:
        self._call, self._metadata, self._ends_at = call, metadata, ends_at
        self.left = False
        self.aborted: tuple[Any, str, Any] | None = None
        self.done: list[Callable[[Any], None]] = []

    def invocation_metadata(self) -> Metadata:
        """Return what the client sent beside the message."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Return seconds until the client's deadline."""
        return None if self._ends_at is None else self._ends_at - self._call.loop.time()

    def cancelled(self) -> bool:
        """Return whether the client has left."""
        return self.left

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Send the headers: nothing here waits for them."""

    async def write(self, message: bytes) -> None:
        """Send one message; waits while the client has not read enough."""
        await self._call.send(message)

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        """End the call with a status."""
        self.aborted = (code, details, trailing_metadata)
        raise grpc.aio.AbortError(details)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call it once the call has ended."""
        self.done.append(callback)


class WireCall:
    """One call, used by its client: written to, read, or cancelled. The handler runs in a task of its own."""

    def __init__(self, loop: VirtualLoop, handler: Any, metadata: Metadata, seconds: float | None) -> None:
        self.loop = loop
        self._handler = handler
        self._sent: deque[bytes] = deque()
        self._asked: deque[bytes] = deque()
        self._closed = False
        self._news, self._room, self._more = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._end: grpc.aio.AioRpcError | None = None
        self.over = False
        self._unread = 0
        self.context = ServerContext(self, metadata, None if seconds is None else loop.time() + seconds)
        self._timer = None if seconds is None else loop.call_later(seconds, self._expire)
        self._task: asyncio.Task[None] | None = None

    def begin(self, raw: bytes | None, name: str) -> None:
        """Run the handler, with the only request, or with those that `write` sends."""
        self._task = self.loop.create_task(self._serve(raw), name=name)

    # --- the handler's side

    async def _serve(self, raw: bytes | None) -> None:
        handler = self._handler
        try:
            if raw is None:
                await handler.stream_stream(self._requests(), self.context)
            elif handler.response_streaming:
                await handler.unary_stream(raw, self.context)
            else:
                answer = await handler.unary_unary(raw, self.context)
                if answer is not None:
                    self._sent.append(answer)
        except grpc.aio.AbortError:
            self._finish(*(self.context.aborted or (grpc.StatusCode.UNKNOWN, "", ())))
        except asyncio.CancelledError:
            self._finish(grpc.StatusCode.CANCELLED, "the call was cancelled", ())
        else:
            self._finish(None, "", ())

    async def _requests(self) -> AsyncIterator[bytes]:
        while True:
            while self._asked:
                yield self._asked.popleft()
            if self._closed:
                return
            self._more.clear()
            await self._more.wait()

    async def send(self, message: bytes) -> None:
        """Take a message of the handler."""
        while self._unread >= WINDOW:
            self._room.clear()
            await self._room.wait()
        self._sent.append(message)
        self._unread += len(message)
        self._news.set()

    def _finish(self, code: Any, details: str, trailer: Any) -> None:
        if not self.over:
            self.over = True
            if code is not None:
                metadata = grpc.aio.Metadata(*trailer)
                self._end = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details)
        if self._timer is not None:
            self._timer.cancel()
        self._news.set()
        for callback in self.context.done:
            callback(self.context)

    # --- the client's side

    async def write(self, request: Any) -> None:
        """Send one message. Raises `grpc.aio.AioRpcError` once the call has ended."""
        if self.over:
            raise self._end or broken()
        self._asked.append(request.SerializeToString())
        self._more.set()

    async def done_writing(self) -> None:
        """Close this side."""
        self._closed = True
        self._more.set()

    async def read(self) -> Any:
        """Return the next message as bytes, or `EOF`. Raises `grpc.aio.AioRpcError` if the call failed."""
        while not self._sent:
            if self.over:
                if self._end is not None:
                    raise self._end
                return EOF
            self._news.clear()
            await self._news.wait()
        message = self._sent.popleft()
        self._unread = max(0, self._unread - len(message))
        self._room.set()
        return message

    def cancel(self) -> bool:
        """Leave: what is unread is lost, and the handler is cancelled."""
        return self.leave(grpc.StatusCode.CANCELLED, "the client has left")

    def leave(self, code: Any, details: str) -> bool:
        """End the call for its client with a status."""
        self.context.left = True
        if not self.over:
            self.over = True
            self._sent.clear()
            self._end = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
            self._news.set()
        if self._task is not None:
            self._task.cancel()
        return True

    def _expire(self) -> None:
        self.leave(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline has passed")


class Wire:
    """Calls of one client at one listener."""

    def __init__(self, loop: VirtualLoop, service: Callable[[Any], Any], metadata: Metadata) -> None:
        self._loop, self._service, self._metadata = loop, service, metadata
        self._number = 0

    def call(self, method: str, request: Any, seconds: float | None, trace: str = "") -> WireCall:
        """Call a method; without a request the messages are written later."""
        handler = self._service(SimpleNamespace(method=method))
        self._number += 1
        metadata = (*self._metadata, ("traceparent", trace)) if trace else self._metadata
        call = WireCall(self._loop, handler, metadata, seconds)
        raw = None if request is None else request.SerializeToString()
        call.begin(raw, f"call {self._number} of {method.rpartition('/')[2]}")
        return call


def broken() -> grpc.aio.AioRpcError:
    """Return the failure of a call whose connection broke."""
    empty = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, empty, empty, "the connection broke")
