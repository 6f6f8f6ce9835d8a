"""`Wire`, the connection to one sidecar: adds metadata and deadlines, repeats requests, chooses lane or plain RPC."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from subagents.dispatch.v1 import dispatch_pb2, dispatch_pb2_grpc
from subagents.history.v1 import history_pb2, history_pb2_grpc
from subagents_client.checking.requests import check_request
from subagents_client.retrying import retry_idempotent
from subagents_client.runtime import ClientRuntime, ClientTimeouts
from subagents_client.session.lane import Stream
from subagents_client.session.lanes import Lanes
from subagents_client.session.operation import LaneOperation

BOOT_SECRET_KEY = "x-subagents-boot-secret"  # noqa: S105 - the name of the header, not a secret
SENT_AT_KEY: Final = "x-subagents-sent-at"

OPERATIONS: Final[Mapping[str, str]] = {
    "BindTurn": "bind_turn",
    "CancelCall": "cancel_call",
    "CloseChild": "close_child",
    "EndTurn": "end_turn",
}
"""RPC with one response to its name on a lane."""

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer")
Frames = (
    LaneOperation
    | grpc.aio.UnaryStreamCall[dispatch_pb2.DispatchRequest, dispatch_pb2.DispatchResponse]
    | grpc.aio.UnaryStreamCall[dispatch_pb2.ResumeDispatchRequest, dispatch_pb2.ResumeDispatchResponse]
)

Watched = grpc.aio.UnaryStreamCall[history_pb2.WatchEventsRequest, history_pb2.WatchEventsResponse]
Exported = grpc.aio.UnaryStreamCall[history_pb2.ExportReplayRequest, history_pb2.ExportReplayResponse]


class Wire:
    """The connection to the sidecar, which client, turns and dispatches share.

    Args:
        channel: the gRPC channel; the caller closes it.
        target: address of the sidecar, for messages.
        boot_secret: sent with every request; empty: none.
        timeouts: the default timeouts, and the limits of retries.
        runtime: clock, randomness and ids.
        session_lane: use a session lane where the sidecar offers one.

    Attributes:
        lanes: the session lanes of this connection.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        target: str,
        boot_secret: str,
        timeouts: ClientTimeouts,
        runtime: ClientRuntime,
        *,
        session_lane: bool = True,
    ) -> None:
        self._channel = channel
        self.target = target
        self._secret: Sequence[tuple[str, str]] = ((BOOT_SECRET_KEY, boot_secret),) if boot_secret else ()
        self.lanes = Lanes(self._session, runtime.now, runtime.chance.uniform, enabled=session_lane)
        self.stub = dispatch_pb2_grpc.DispatchServiceStub(channel)
        self.history = history_pb2_grpc.HistoryServiceStub(channel)
        self.timeouts = timeouts
        self.runtime = runtime

    async def ask(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Answer],
        request: Request,
        name: str,
        timeout: timedelta,
    ) -> Answer:
        """Send a request that is safe to repeat and return its answer.

        Raises:
            InvalidRequest: the request breaks a rule of the protos; it was not sent.
            SubagentsError: the last failure, once time or attempts are used up.
        """
        check_request(request)

        async def send(left: float) -> Answer:
            operation = self._on_lane(OPERATIONS.get(name, ""), request, left)
            if operation is None:
                return await method(request, timeout=left, metadata=self._metadata)
            try:
                answer: Answer = await operation.read()
            finally:
                operation.cancel()
            return answer

        return await retry_idempotent(send, f"{name} at {self.target}", timeout, self.timeouts, self.runtime)

    def dispatch(self, request: dispatch_pb2.DispatchRequest, left: float) -> Frames:
        """Start a dispatch. The caller must cancel the stream, in a `finally`.

        Raises:
            InvalidRequest: the request breaks a rule of the protos; it was not sent.
        """
        check_request(request)
        operation = self._on_lane("dispatch", request, left)
        return operation or self.stub.Dispatch(request, timeout=left, metadata=self._metadata)

    def resume(self, request: dispatch_pb2.ResumeDispatchRequest, left: float) -> Frames:
        """Open a new stream of a dispatch. The caller must cancel the stream. Raises the errors of `dispatch`."""
        check_request(request)
        operation = self._on_lane("resume_dispatch", request, left)
        return operation or self.stub.ResumeDispatch(request, timeout=left, metadata=self._metadata)

    @property
    def _metadata(self) -> Sequence[tuple[str, str]]:
        sent = (SENT_AT_KEY, str(int(self.runtime.now() * 1000)))
        return (*self._secret, sent, *self.runtime.trace_headers().items())

    def _on_lane(self, kind: str, request: Message, left: float) -> LaneOperation | None:
        """Send a request over the lane; None: there is no lane that takes it."""
        lane = self.lanes.current() if kind else None
        if lane is None or not lane.takes(request):
            return None
        return lane.send(kind, request, left, self.runtime.trace_headers())

    def _session(self, left: float) -> Stream:
        return self.stub.Session(timeout=left, metadata=self._secret)

    def watch(self, request: history_pb2.WatchEventsRequest) -> Watched:
        """Open a stream of a turn's events, without a deadline. The caller must cancel the stream, in a `finally`."""
        check_request(request)
        return self.history.WatchEvents(request, metadata=self._metadata)

    def export(self, request: history_pb2.ExportReplayRequest, left: float) -> Exported:
        """Open a stream with the replay document of a turn. The caller must cancel the stream, in a `finally`."""
        check_request(request)
        return self.history.ExportReplay(request, timeout=left, metadata=self._metadata)

    async def connected(self, limit: float) -> bool:
        """Wait at most `limit` seconds for a connection; return whether there is one."""
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return True
        try:
            async with asyncio.timeout(limit):
                await self._channel.channel_ready()
        except TimeoutError:
            return False
        return True
