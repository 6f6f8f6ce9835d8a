"""Sends RPCs of operations: over `grpc.aio`, or over blocking stubs, which Locust's greenlets need."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import grpc

from subagents.dispatch.v1 import dispatch_pb2_grpc

Metadata = Sequence[tuple[str, str]]
Result = TypeVar("Result")

CHANNEL_OPTIONS: Final = (
    ("grpc.enable_retries", 0),  # a retry would hide an error and lengthen a latency
    ("grpc.use_local_subchannel_pool", 1),  # or several channels would share one connection
)


class Rpcs(Protocol):
    """The RPCs of one sidecar over one connection. Failures are `grpc.RpcError`."""

    def clock(self) -> float:
        """Return monotonic seconds."""
        ...

    async def ask(self, method: str, request: Any, deadline: float) -> Any:
        """Send a request and return its only response."""
        ...

    def listen(self, method: str, request: Any, deadline: float) -> AsyncGenerator[Any, None]:
        """Yield the responses of a stream; closing the generator cancels the RPC."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...

    def reconnected(self) -> Any:
        """Return an async context manager that yields equal RPCs over a new connection."""
        ...


class AsyncRpcs:
    """Over `grpc.aio`, in an event loop."""

    def __init__(self, channel: grpc.aio.Channel, target: str, metadata: Metadata) -> None:
        self._stub: Any = dispatch_pb2_grpc.DispatchServiceStub(channel)
        self._target = target
        self._metadata = metadata
        self.clock = asyncio.get_running_loop().time

    async def ask(self, method: str, request: Any, deadline: float) -> Any:
        """Send a request and return its only response."""
        return await getattr(self._stub, method)(request, timeout=deadline, metadata=self._metadata)

    async def listen(self, method: str, request: Any, deadline: float) -> AsyncGenerator[Any, None]:
        """Yield the responses of a stream; closing the generator cancels the RPC."""
        stream = getattr(self._stub, method)(request, timeout=deadline, metadata=self._metadata)
        try:
            async for answer in stream:
                yield answer
        finally:
            stream.cancel()

    async def pause(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def reconnected(self) -> AsyncIterator[Rpcs]:
        """Yield equal RPCs over a new connection."""
        async with grpc.aio.insecure_channel(self._target, options=CHANNEL_OPTIONS) as channel:
            yield AsyncRpcs(channel, self._target, self._metadata)


class BlockingRpcs:
    """Over blocking stubs. Its coroutines never suspend, so `finished` runs them without an event loop."""

    def __init__(self, channel: grpc.Channel, target: str, metadata: Metadata) -> None:
        generated: Any = dispatch_pb2_grpc.DispatchServiceStub  # typed for `grpc.aio` alone; takes both
        self._stub = generated(channel)
        self._target = target
        self._metadata = metadata
        self.clock: Callable[[], float] = time.monotonic

    async def ask(self, method: str, request: Any, deadline: float) -> Any:
        """Send a request and return its only response."""
        return getattr(self._stub, method)(request, timeout=deadline, metadata=self._metadata)

    async def listen(self, method: str, request: Any, deadline: float) -> AsyncGenerator[Any, None]:
        """Yield the responses of a stream; closing the generator cancels the RPC."""
        stream = getattr(self._stub, method)(request, timeout=deadline, metadata=self._metadata)
        try:
            for answer in stream:
                yield answer
        finally:
            stream.cancel()

    async def pause(self, seconds: float) -> None:
        """Wait; under Locust `time.sleep` is gevent's and lets other greenlets run."""
        time.sleep(seconds)  # noqa: ASYNC251  there is no event loop here

    @asynccontextmanager
    async def reconnected(self) -> AsyncIterator[Rpcs]:
        """Yield equal RPCs over a new connection."""
        with grpc.insecure_channel(self._target, options=CHANNEL_OPTIONS) as channel:
            yield BlockingRpcs(channel, self._target, self._metadata)


def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine over `BlockingRpcs` to its end.

    Raises:
        RuntimeError: the coroutine suspends, which needs an event loop.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    work.close()
    raise RuntimeError("this coroutine waits for an event loop; only BlockingRpcs may be awaited here")
