"""A consumer-agent that speaks protobuf: over plain RPCs, or over session lanes that break and are drained.

It has the interface of the operations that the simulated clients ask, so that they do over the wire what they do
without it. Lanes are the Python SDK's own; where there is none, plain RPCs are used. A dispatch whose lane broke is
resumed, and any other request repeated, as the SDK does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.errors import UnknownDispatch
from sidecar.operations.requests import DispatchRequest, ResumeRequest
from sidecar.operations.turn.dispatch_calls import DispatchHandle
from sidecar.rpc.dispatch_servicer import SERVICE
from sidecar.rpc.session.rules import OPERATIONS, contract
from sidecar.rpc.translate.surfaces import BoundTurns
from sidecar.rpc.translate.turn_ends import ClosedTurns
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.errors import error_from
from subagents_client.session.lanes import Lanes
from tests.support.simulation.wire import requests
from tests.support.simulation.wire.served import GRACE, ServedOperations
from tests.support.simulation.wire.transport import EOF, WireCall, broken

MOST_CUTS: Final = 3
"""Of lanes at a moment, and as many at a message."""
MESSAGES: Final = 60
"""Among the first of so many, in both directions together, a lane breaks."""
RESPONSES: Final[Mapping[str, type[Message]]] = {
    "bind_turn": pb.BindTurnResponse,
    "dispatch": pb.DispatchResponse,
    "resume_dispatch": pb.ResumeDispatchResponse,
    "cancel_call": pb.CancelCallResponse,
    "close_child": pb.CloseChildResponse,
    "end_turn": pb.EndTurnResponse,
}


class Parsed:
    """The call of `Session` as the SDK's lane uses it: messages instead of bytes. Breaks at some of them."""

    def __init__(self, call: WireCall, connection: "Connection") -> None:
        self._call, self._connection = call, connection
        self.done_writing, self.cancel = call.done_writing, call.cancel

    async def write(self, request: pb.SessionRequest) -> None:
        """Send a message; the lane may break before or after it."""
        with self._connection.message():
            await self._call.write(request)

    async def read(self) -> Any:
        """Return the next message, or `EOF`; the lane may break before or after it."""
        raw = await self._call.read()
        if raw is EOF:
            return raw
        with self._connection.message():
            message = pb.SessionResponse.FromString(raw)
            self._connection.counted["lane drained"] += message.HasField("drain")
            return message


class Connection:
    """The SDK's lanes over calls that can be cut. `cut` breaks the newest."""

    def __init__(self, loop: VirtualLoop, served: ServedOperations, chance: Random, counted: Counter[str]) -> None:
        self._served, self.counted = served, counted
        self._calls: list[WireCall] = []
        self._messages = count()
        self._cuts = {chance.randrange(MESSAGES): chance.random() < 0.5 for _ in range(chance.randint(0, MOST_CUTS))}
        self.lanes = Lanes(self._open, loop.time, chance.uniform, enabled=True)

    def _open(self, seconds: float) -> Any:
        call = self._served.wire.call(f"/{SERVICE}/Session", None, seconds)
        self._calls.append(call)
        self.counted["lane opened"] += 1
        return Parsed(call, self)

    @contextmanager
    def message(self) -> Iterator[None]:
        """Break the lane if it is the turn of a message: before that arrives, which then fails, or after."""
        arrives = self._cuts.get(next(self._messages))
        if arrives is False:
            self.cut()
            raise broken()
        yield
        if arrives:
            self.cut()

    def cut(self) -> None:
        """Break the newest lane."""
        if self._calls and not self._calls[-1].over:
            self.counted["lane cut"] += 1
            self._calls[-1].leave(grpc.StatusCode.UNAVAILABLE, "the connection broke")


class WireDispatch:
    """A dispatch that is listened to over the wire. Has what the checks read of a handle.

    Attributes:
        left_away: its listener left after its lane broke, and before it was listened to again.
    """

    def __init__(self, client: "WireOperations", call: Any, kind: str, first: Any, handle: DispatchHandle) -> None:
        self._client, self._call, self._kind, self._first = client, call, kind, first
        self.dispatch, self.attached = handle.dispatch, handle.attached
        self.left_away = False

    async def deliver(self, take: Callable[[pb.DispatchFrame], Any]) -> None:
        """Give every frame to `take`, also of later lanes, until the end.

        Cancellation means that the listener leaves.
        """
        message, newest, again, resuming = self._first, 0, False, False
        try:
            while message is not EOF:
                frame = message.frame
                if again and frame.HasField("snapshot"):
                    again = False
                    if frame.snapshot.sequence > newest and newest:
                        self._client.problems.append(f"{self.dispatch.dispatch_id}: resumed behind {newest}")
                    frame.ClearField("snapshot")
                elif frame.HasField("snapshot"):
                    newest = max(newest, frame.snapshot.sequence)
                newest = max([newest, *(event.sequence for event in frame.events)])
                if frame.events or frame.HasField("result") or frame.HasField("snapshot"):
                    await take(frame)
                try:
                    message = await self._client.next_of(self._call, self._kind)
                except grpc.aio.AioRpcError as failure:
                    if failure.code() is not grpc.StatusCode.UNAVAILABLE or self._client.way == "rpc":
                        return  # the deadline has passed, or the stream was given up
                    resuming = True
                    self._call, self._kind, message = await self._client.resumed(self.dispatch.request, newest)
                    resuming, again = False, True
        except asyncio.CancelledError:
            # A slow reader may not have noticed yet that its lane broke.
            self.left_away = self._client.way == "lane" and (resuming or self._call.over)
            self._call.cancel()
            raise


class WireOperations:
    """Asks the operations of a sidecar over the wire.

    Attributes:
        way: `rpc` or `lane`.
        problems: what arrived otherwise than the sidecar said it.
        turns: of the sidecar, for the checks.
    """

    def __init__(
        self, served: ServedOperations, loop: VirtualLoop, operations: Any, way: str, chance: Random, counted: Any
    ) -> None:
        self.way, self._counted = way, counted
        self.problems: list[str] = []
        self.turns = operations.turns
        self.dispatch_calls = self
        self._served, self._loop, self._tap = served, loop, served.tap
        self._connection = Connection(loop, served, chance, counted)
        self._bound, self._closed = BoundTurns(contract(served.rules)), ClosedTurns()
        self._traces = 0
        for _ in range(chance.randint(0, MOST_CUTS) if way == "lane" else 0):
            loop.call_at(chance.uniform(0.0, 8.0), self._connection.cut)

    async def close(self) -> None:
        """Let the lanes end."""
        await self._connection.lanes.close()

    # --- requests with one answer

    async def bind_turn(self, request: Any) -> Any:
        """Bind a turn."""
        message = await self._answer("bind_turn", requests.bind_turn(request))
        if self.way == "lane":
            self._connection.lanes.offered(message.contract)
        bound = self._tap.bound[request.turn_id]
        wanted = self._bound(bound)
        wanted.state, wanted.compaction_due = message.state, message.compaction_due  # of whichever request this answers
        self._same("bind", request.turn_id, message.surface, wanted.surface)
        return bound

    async def cancel_call(self, request: Any) -> bool:
        """Cancel a call."""
        return bool((await self._answer("cancel_call", requests.cancel(request))).cancelled)

    async def close_child(self, request: Any) -> Any:
        """Close a child."""
        return await self._answer("close_child", requests.close_child(request))

    async def end_turn(self, request: Any) -> Any:
        """End a turn."""
        message = await self._answer("end_turn", requests.end_turn(request))
        attached = message.state == pb.START_STATE_ATTACHED
        for closed, _ in reversed(self._tap.closed):
            if self._closed(closed, attached=attached) == message:
                return closed, attached
        self.problems.append(f"{message.routing_decision.turn_id}: an end arrived that no operation told")
        return self._tap.closed[-1][0], attached

    async def _answer(self, kind: str, request: Message) -> Any:
        """Return the only answer; a request whose lane broke is sent again on another one."""
        while True:
            call = await self._sent(kind, request, None)
            try:
                return await self.next_of(call, kind)
            except grpc.aio.AioRpcError as failure:
                if not self._lost(failure):
                    raise error_from(failure, kind) from None
            except asyncio.CancelledError:
                call.cancel()
                raise

    # --- dispatches

    async def begin(self, request: DispatchRequest, left: timedelta | None) -> WireDispatch:
        """Begin a dispatch, and listen."""
        self._traces += 1
        trace = f"00-{self._traces:032x}-{1:016x}-01"
        message, seconds = requests.dispatch(request), None if left is None else left.total_seconds()
        while True:
            call = await self._sent("dispatch", message, seconds, trace)
            first = await self._first_of(call, "dispatch")
            if first is not None:
                handle = self._tap.begun.get(trace) or self._tap.dispatches[request.dispatch_id]
                return WireDispatch(self, call, "dispatch", first, handle)

    async def resume_dispatch(self, request: ResumeRequest) -> WireDispatch:
        """Listen to a dispatch again."""
        while True:
            call = await self._sent("resume_dispatch", requests.resume(request), None)
            first = await self._first_of(call, "resume_dispatch")
            if first is not None:
                return WireDispatch(self, call, "resume_dispatch", first, self._tap.dispatches[request.dispatch_id])

    async def resumed(self, request: DispatchRequest, after: int) -> tuple[Any, str, Any]:
        """Resume a dispatch whose lane broke; one that never arrived is sent."""
        again = requests.resume(ResumeRequest(request.surface_token, request.dispatch_id, after))
        while True:
            call = await self._sent("resume_dispatch", again, None)
            try:
                first = await self._first_of(call, "resume_dispatch")
            except UnknownDispatch:
                return call, "resume_dispatch", EOF
            if first is not None:
                return call, "resume_dispatch", first

    async def _first_of(self, call: Any, kind: str) -> Any:
        """Return the first message; None if the lane broke."""
        try:
            return await self.next_of(call, kind)
        except grpc.aio.AioRpcError as failure:
            if not self._lost(failure):
                raise error_from(failure, kind) from None
            return None
        except asyncio.CancelledError:
            call.cancel()
            raise

    async def _sent(self, kind: str, request: Message, seconds: float | None, trace: str = "") -> Any:
        lane = await self._connection.lanes.ready() if self.way == "lane" else None
        if lane is not None and lane.takes(request):
            self._counted["operation over a lane"] += 1
            return lane.send(kind, request, seconds, {"traceparent": trace} if trace else {})
        return self._served.wire.call(f"/{SERVICE}/{OPERATIONS[kind]}", request, seconds, trace)

    async def next_of(self, call: Any, kind: str) -> Any:
        """Return the next message of a call, or `EOF`."""
        message = await call.read()
        return RESPONSES[kind].FromString(message) if isinstance(message, bytes) else message

    def _lost(self, failure: grpc.aio.AioRpcError) -> bool:
        """Say whether a lane broke, so that nothing is known of what became of the operation."""
        return self.way == "lane" and failure.code() is grpc.StatusCode.UNAVAILABLE and not failure.trailing_metadata()

    def _same(self, what: str, of: str, arrived: Message, wanted: Message) -> None:
        if arrived != wanted:
            self.problems.append(f"{what} {of}: another answer arrived than the operation told")


__all__ = ["GRACE", "WireDispatch", "WireOperations"]
