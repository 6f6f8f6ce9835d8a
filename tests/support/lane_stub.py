"""The stub of the dispatch service over a session lane: what tests drive the plain RPCs with drives the lane, too."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from sidecar.core.session.stalls import Stall
from sidecar.rpc.session.rules import SessionRules
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents_client.session.lane import Lane
from subagents_client.session.operation import LaneOperation
from tests.support.requests import Failure, failure_of

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


class KeptLaneReports:
    """Keeps what lanes report."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.stalls: list[Stall] = []
        self.credits: list[str] = []
        self.on_stall: Callable[[Stall], None] = lambda _: None

    def stalled(self, stall: Stall) -> None:
        """Keep a stall."""
        self.stalls.append(stall)
        self.on_stall(stall)

    def out_of_credit(self, credit: str) -> None:
        """Keep whose credit it was."""
        self.credits.append(credit)


class RawLane:
    """A lane, message by message: what is sent is what a test says, and nothing is granted behind its back.

    Attributes:
        messages: what came, in order.
        hello: of the sidecar.
    """

    def __init__(self, channel: grpc.aio.Channel, metadata: Any, seconds: float | None = SECONDS) -> None:
        """Call `Session`."""
        self.call: Any = dispatch_pb2_grpc.DispatchServiceStub(channel).Session(timeout=seconds, metadata=metadata)
        self.messages: list[pb.SessionResponse] = []
        self.results: list[pb.SessionResult] = []
        self.hello = pb.SessionServerHello()

    async def say_hello(self, **fields: Any) -> pb.SessionServerHello:
        """Open it."""
        await self.call.write(hello(**fields))
        self.hello = (await self.read()).hello
        return self.hello

    async def send(self, *operations: pb.SessionOperation, **fields: Any) -> None:
        """Send one message."""
        await self.call.write(pb.SessionRequest(operations=operations, **fields))

    async def read(self) -> pb.SessionResponse:
        """Return the next message; heartbeats are passed over."""
        while True:
            async with asyncio.timeout(10):
                message: pb.SessionResponse = await self.call.read()
            assert isinstance(message, pb.SessionResponse), "the lane has ended"
            if not message.HasField("heartbeat"):
                self.messages.append(message)
                self.results += message.results
                return message

    async def failure(self) -> Failure:
        """Read to the end, which has to be a failure; returns it."""

        async def to_the_end() -> None:
            while await self.call.read() is not grpc.aio.EOF:
                pass

        return await failure_of(to_the_end())

    async def ended(self, correlation_id: int) -> pb.SessionStatus:
        """Read until an operation has ended; returns its status."""
        while True:
            for result in self.results:
                if result.correlation_id == correlation_id and result.HasField("status"):
                    return result.status
            await self.read()

    async def frames(self, correlation_id: int) -> Sequence[pb.DispatchFrame]:
        """Read until an operation has ended; returns its frames."""
        await self.ended(correlation_id)
        parts = [each for each in self.results if each.correlation_id == correlation_id]
        return [(each.dispatch if each.HasField("dispatch") else each.resume_dispatch).frame for each in parts]


def operation(correlation_id: int, seconds: float | None = None, **fields: Any) -> pb.SessionOperation:
    """Return an operation; `fields` has its request."""
    message = pb.SessionOperation(correlation_id=correlation_id, **fields)
    if seconds is not None:
        message.deadline.FromTimedelta(timedelta(seconds=seconds))
    return message


def session_rules(**chosen: Any) -> SessionRules:
    """Return rules of lanes, for tests that import nothing of the sidecar."""
    return SessionRules(**chosen)


def hello(**fields: Any) -> pb.SessionRequest:
    """Return a first message."""
    return pb.SessionRequest(hello=pb.SessionClientHello(**{"contract_version": 1, **fields}))
