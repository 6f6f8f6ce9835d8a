"""The stub of the dispatch service over a session lane: what tests drive the plain RPCs with drives the lane, too."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents_client.session.lane import Lane
from subagents_client.session.operation import LaneOperation

SECONDS: Final = 120.0
TRACE: Final = ("traceparent", "tracestate")


class OnLane:
    """One operation, used as the call of a stub: awaited, iterated over, read or cancelled."""

    def __init__(self, operation: LaneOperation) -> None:
        """Keep it."""
        self._operation = operation

    def __await__(self) -> Generator[Any, None, Any]:
        """Return the only answer."""
        return self._operation.read().__await__()

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Give every answer."""
        while True:
            answer = await self._operation.read()
            if not isinstance(answer, Message):
                return
            yield answer

    async def read(self) -> Any:
        """Return the next answer."""
        return await self._operation.read()

    def cancel(self) -> bool:
        """Abandon it."""
        self._operation.cancel()
        return True


class LaneStub:
    """What `DispatchServiceStub` has, over an open lane; what a lane does not carry goes over the channel."""

    def __init__(self, lane: Lane, plain: dispatch_pb2_grpc.DispatchServiceStub) -> None:
        """Make the methods."""
        self.lane = lane
        self.BindTurn = self._method("bind_turn")
        self.Dispatch = self._method("dispatch")
        self.ResumeDispatch = self._method("resume_dispatch")
        self.CancelCall = self._method("cancel_call")
        self.CloseChild = self._method("close_child")
        self.EndTurn = self._method("end_turn")
        self.DispatchUnary = plain.DispatchUnary
        self.Session = plain.Session

    def _method(self, kind: str) -> Callable[..., Any]:
        def call(request: Message, timeout: float | None = None, metadata: Any = ()) -> OnLane:
            trace = {key: value for key, value in metadata or () if key in TRACE}
            return OnLane(self.lane.send(kind, request, timeout, trace))

        return call


@asynccontextmanager
async def open_lane(
    channel: grpc.aio.Channel, metadata: Any, previous: str = "", seconds: float = SECONDS
) -> AsyncIterator[Lane]:
    """Open a lane, and break it off at the end."""
    lane = Lane(dispatch_pb2_grpc.DispatchServiceStub(channel).Session(timeout=seconds, metadata=metadata), previous)
    running = asyncio.create_task(lane.run())
    try:
        async with asyncio.timeout(10):
            await lane.opened.wait()
        yield lane
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def hello(**fields: Any) -> pb.SessionRequest:
    """Return a first message."""
    return pb.SessionRequest(hello=pb.SessionClientHello(contract_version=1, **fields))


def some_deadline(seconds: float) -> Any:
    """Return a duration as operations have it."""
    return timedelta(seconds=seconds)
