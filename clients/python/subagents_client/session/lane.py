"""`Lane`, one session lane: sends operations, passes on their results, and grants credit for results that were read."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import Message

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.session.operation import LaneOperation, OperationNotSent, broken

CONTRACT_VERSION: Final = 1
LANE_CREDIT: Final = 4 * 1024 * 1024
OPERATION_CREDIT: Final = 1024 * 1024
MESSAGE_BYTES: Final = 1024 * 1024
"""Maximum bytes of a message with several operations; a larger operation is sent alone."""
BYTES_BESIDE: Final = 16 * 1024
"""Upper limit for the rest of a message with one operation: its trace, and credits and abandons of other operations."""

SILENT_INTERVALS: Final = 3
"""A lane is broken if the sidecar sends nothing for this number of heartbeat intervals."""

NO_TRACE: Final[Mapping[str, str]] = {}


class Stream(Protocol):
    """The methods of a bidirectional call of `grpc.aio` that a lane uses."""

    async def write(self, request: pb.SessionRequest) -> None:
        """Send one message."""

    async def read(self) -> Any:
        """Return the next message, or `grpc.aio.EOF`."""

    async def done_writing(self) -> None:
        """Close the sending side."""

    def cancel(self) -> bool:
        """Cancel the call."""


class Lane:
    """One session lane. Run the coroutine `run` in its own task.

    Attributes:
        hello: the limits that the sidecar announces; None before its first message.
        draining: whether the sidecar has asked for another lane.
        opened: set when `hello` has arrived or the lane has broken.
    """

    def __init__(self, stream: Stream, previous_lane_id: str = "") -> None:
        self._stream = stream
        self.hello: pb.SessionServerHello | None = None
        self.draining = False
        self.opened = asyncio.Event()
        self._previous = previous_lane_id
        self._operations: dict[int, LaneOperation] = {}
        self._newest = 0
        self._unsent: list[pb.SessionOperation] = []
        self._abandons: list[int] = []
        self._credits: dict[int, int] = {}
        self._granting = self._heartbeat = False
        self._quiet = True
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._retiring = self._over = False
        self._sleeping: asyncio.Future[None] | None = None
        self._beats: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether the lane accepts operations."""
        return self.hello is not None and not self._over and not self._retiring

    @property
    def over(self) -> bool:
        """Whether the lane has ended."""
        return self._over

    def takes(self, request: Message) -> bool:
        """Whether the lane can carry a request: too many operations are refused, and a too large one ends the lane."""
        hello = self.hello
        return (
            hello is not None
            and len(self._operations) < hello.max_operations
            and request.ByteSize() + BYTES_BESIDE <= hello.max_message_bytes
        )

    @property
    def in_flight(self) -> int:
        """Number of operations that have not ended."""
        return len(self._operations)

    def send(
        self, kind: str, request: Message, seconds: float | None = None, trace: Mapping[str, str] = NO_TRACE
    ) -> LaneOperation:
        """Queue an operation for sending, and return it.

        Args:
            kind: name of the request in `SessionOperation`, e.g. `bind_turn`.
            request: the request of the plain RPC.
            seconds: deadline of the operation, from now; None: as long as the operator allows.
            trace: `traceparent` and `tracestate` of the operation; may be empty.

        Raises:
            OperationNotSent: the lane is not `usable`.
        """
        if self.hello is None or self._over or self._retiring:
            raise broken("the lane takes no operations", OperationNotSent)
        self._newest += 1
        fields: dict[str, Any] = {kind: request, **trace}
        message = pb.SessionOperation(correlation_id=self._newest, credit_bytes=OPERATION_CREDIT, **fields)
        if seconds is not None:
            nanos = max(1, int(seconds * 1e9))
            message.deadline.seconds, message.deadline.nanos = divmod(nanos, 1_000_000_000)
        operation = LaneOperation(self._newest, self, self.hello.instance_id)
        if seconds is not None:
            operation.expire_after(seconds)
        self._operations[self._newest] = operation
        self._unsent.append(message)
        self._wake()
        return operation

    # --- what an operation says

    def consumed(self, correlation_id: int, size: int) -> None:
        """Grant as much again, once it is worth a message."""
        self._grant(0, size, LANE_CREDIT // 4)
        if correlation_id in self._operations:
            self._grant(correlation_id, size, OPERATION_CREDIT // 2)

    def _grant(self, correlation_id: int, size: int, enough: int) -> None:
        self._credits[correlation_id] = granted = self._credits.get(correlation_id, 0) + size
        if granted >= enough and not self._granting:
            self._granting = True
            self._wake()

    def abandon(self, correlation_id: int) -> None:
        """Drop an unsent operation; tell the sidecar to abandon one that was sent."""
        unsent = [operation for operation in self._unsent if operation.correlation_id != correlation_id]
        if len(unsent) < len(self._unsent):
            self._unsent = unsent
            self._operations.pop(correlation_id, None)
            return
        if correlation_id in self._operations:
            self._abandons.append(correlation_id)
            self._wake()

    # --- its life

    async def run(self) -> None:
        """Open the lane and serve it until it ends. Operations in flight then fail like RPCs on a broken connection."""
        reading, writing = self._loop.create_task(self._read()), self._loop.create_task(self._write())
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and self._retiring:
                await asyncio.wait((reading,))
        finally:
            self._break()
            reading.cancel()
            writing.cancel()
            self._stream.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    def give_up(self) -> None:
        """Break the lane at once."""
        self._stream.cancel()

    def leave(self) -> None:
        """Abandon all operations in flight and end the lane, like closing a connection with open RPCs."""
        for correlation_id, operation in list(self._operations.items()):
            operation.end(broken("the client was closed"))
            self.abandon(correlation_id)
        self.retire()

    def retire(self) -> None:
        """Accept no more operations, and end when all operations in flight have ended."""
        self._retiring = True
        self._wake()

    async def _write(self) -> None:
        hello = pb.SessionClientHello(
            contract_version=CONTRACT_VERSION,
            credit_bytes=LANE_CREDIT,
            previous_lane_id=self._previous,
            heartbeats=True,
        )
        await self._stream.write(pb.SessionRequest(hello=hello))
        while True:
            message = self._next()
            if message is not None:
                await self._stream.write(message)
            elif self._retiring and not self._operations:
                await self._stream.done_writing()
                return
            else:
                self._sleeping = self._loop.create_future()
                await self._sleeping

    def _wake(self) -> None:
        """Wake the writer, which then checks for messages to send."""
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)

    def _beat(self, interval: float) -> None:
        """Twice per interval: send a heartbeat if nothing else was sent; break the lane if the sidecar is silent."""
        if self._loop.time() - self._heard_at > SILENT_INTERVALS * interval:
            self._stream.cancel()
            return
        self._heartbeat, self._quiet = self._quiet, True
        self._wake()
        self._beats = self._loop.call_later(interval / 2, self._beat, interval)

    def _next(self) -> pb.SessionRequest | None:
        if not (self._unsent or self._abandons or self._heartbeat or self._granting):
            return None
        message = pb.SessionRequest(operations=self._taken(), abandons=self._abandons)
        if self._heartbeat:
            message.heartbeat.SetInParent()
        if self._granting:
            for correlation_id, size in self._credits.items():
                message.credits.add(correlation_id=correlation_id, bytes=size)
            self._credits = {}
        self._abandons, self._heartbeat, self._granting, self._quiet = [], False, False, False
        return message

    def _taken(self) -> list[pb.SessionOperation]:
        unsent, size = self._unsent, 0
        for place, each in enumerate(unsent):
            size += each.ByteSize()
            if size + BYTES_BESIDE > MESSAGE_BYTES and place:
                self._unsent = unsent[place:]
                return unsent[:place]
        self._unsent = []
        return unsent

    async def _read(self) -> None:
        while True:
            message = await self._stream.read()
            if not isinstance(message, pb.SessionResponse):
                return
            self._heard_at = self._loop.time()
            if message.HasField("hello"):
                self._greeted(message.hello)
            for result in message.results:
                operation = self._operations.get(result.correlation_id)
                if operation is not None and operation.take(result):
                    del self._operations[result.correlation_id]
                    self._credits.pop(result.correlation_id, None)
            if message.HasField("drain"):
                self.draining = True
            if self._retiring and not self._operations:
                self._wake()

    def _greeted(self, hello: pb.SessionServerHello) -> None:
        self.hello = hello
        self.opened.set()
        self._wake()
        interval = hello.heartbeat_interval.ToTimedelta().total_seconds()
        if interval > 0:
            self._beats = self._loop.call_later(interval / 2, self._beat, interval)

    def _break(self) -> None:
        self._over = True
        if self._beats is not None:
            self._beats.cancel()
        self.opened.set()
        unsent = {each.correlation_id for each in self._unsent}
        for correlation_id, operation in list(self._operations.items()):
            operation.end(
                broken("the session lane broke", OperationNotSent if correlation_id in unsent else grpc.aio.AioRpcError)
            )
        self._operations.clear()
        self._unsent = []
