"""A consumer-agent that speaks protobuf: over plain RPCs, or over session lanes that break and are drained.

It has the interface of the operations that the simulated clients ask, so that they do over the wire what they do without it. A
lane is the Python SDK's own; one that broke is replaced, and a dispatch is resumed there, as the SDK does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.errors import UnknownDispatch
from sidecar.core.session.incoming import longest_deadline
from sidecar.operations.requests import DispatchRequest, ResumeRequest
from sidecar.operations.turn.dispatch_calls import DispatchHandle
from sidecar.rpc.dispatch_servicer import SERVICE
from sidecar.rpc.session.hello import contract
from sidecar.rpc.session.rules import OPERATIONS
from sidecar.rpc.translate.surfaces import BoundTurns
from sidecar.rpc.translate.turn_ends import ClosedTurns
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.errors import error_from
from subagents_client.session.lane import Lane
from tests.support.simulation.wire import requests
from tests.support.simulation.wire.served import GRACE, ServedOperations
from tests.support.simulation.wire.transport import EOF, WireCall

RESPONSES: Final = {
    "bind_turn": pb.BindTurnResponse,
    "dispatch": pb.DispatchResponse,
    "resume_dispatch": pb.ResumeDispatchResponse,
    "cancel_call": pb.CancelCallResponse,
    "close_child": pb.CloseChildResponse,
    "end_turn": pb.EndTurnResponse,
}


class Parsed:
    """The call of `Session` as the SDK's lane uses it: messages instead of bytes."""

    def __init__(self, call: WireCall) -> None:
        self._call = call
        self.write, self.done_writing, self.cancel = call.write, call.done_writing, call.cancel

    async def read(self) -> Any:
        """Return the next message, or `EOF`."""
        raw = await self._call.read()
        return raw if raw is EOF else pb.SessionResponse.FromString(raw)


class Lanes:
    """The lanes of one client, one after the other."""

    def __init__(self, loop: VirtualLoop, served: ServedOperations, counted: Counter[str]) -> None:
        self._loop, self._served, self._counted = loop, served, counted
        self._lane: Lane | None = None
        self._opening: asyncio.Event | None = None
        self._running: list[asyncio.Task[None]] = []
        self._calls: list[WireCall] = []

    async def lane(self) -> Lane:
        """Return a lane that takes operations; opens one if there is none."""
        while self._lane is None or not self._lane.usable or self._lane.draining:
            if self._opening is not None:
                await self._opening.wait()
                continue
            self._opening = asyncio.Event()
            if self._lane is not None and self._lane.draining:
                self._counted["lane drained"] += 1
                self._lane.retire()
            rules = self._served.rules
            seconds = longest_deadline(rules.max_age, rules.drain_time).total_seconds()
            call = self._served.wire.call(f"/{SERVICE}/Session", None, seconds)
            self._calls.append(call)
            previous = self._lane.hello.lane_id if self._lane is not None and self._lane.hello is not None else ""
            self._lane = Lane(Parsed(call), previous)
            self._running.append(self._loop.create_task(self._lane.run(), name=f"lane {len(self._calls)}"))
            await self._lane.opened.wait()
            opening, self._opening = self._opening, None
            opening.set()
        return self._lane

    def cut(self) -> None:
        """Break the newest lane."""
        if self._calls:
            self._counted["lane cut"] += 1
            self._calls[-1].leave(grpc.StatusCode.UNAVAILABLE, "the connection broke")

    async def close(self) -> None:
        """Let every lane end."""
        if self._lane is not None:
            self._lane.retire()
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


class WireDispatch:
    """A dispatch that is listened to over the wire. Has what the checks read of a handle."""

    def __init__(self, client: "WireOperations", call: Any, kind: str, first: Any, handle: DispatchHandle) -> None:
        self._client, self._call, self._kind, self._first = client, call, kind, first
        self.dispatch, self.attached = handle.dispatch, handle.attached
        self.request: DispatchRequest | ResumeRequest | None = None

    async def deliver(self, take: Callable[[pb.DispatchFrame], Any]) -> None:
        """Give every frame to `take`, also of later lanes, until the end. Cancellation means that the listener leaves."""
        message, newest, again = self._first, 0, False
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
                    self._call, self._kind, message = await self._client.resumed(self.dispatch.request, newest)
                    again = True
        except asyncio.CancelledError:
            self._call.cancel()
            raise


class WireOperations:
    """Asks the operations of a sidecar over the wire.

    Attributes:
        way: `rpc` or `lane`.
        problems: what arrived otherwise than the sidecar said it.
        turns: of the sidecar, for the checks.
    """

    def __init__(self, served: ServedOperations, loop: VirtualLoop, operations: Any, way: str, counted: Any) -> None:
        self.way = way
        self.problems: list[str] = []
        self.turns = operations.turns
        self.dispatch_calls = self
        self._served, self._loop, self._tap = served, loop, served.tap
        self.lanes = Lanes(loop, served, counted)
        self._bound, self._closed = BoundTurns(contract(served.rules)), ClosedTurns()
        self._traces = 0

    def plan(self, chance: Random) -> None:
        """Have lanes break at some moments."""
        for _ in range(chance.randint(0, 4) if self.way == "lane" else 0):
            self._loop.call_at(chance.uniform(0.0, 8.0), self.lanes.cut)

    # --- requests with one answer

    async def bind_turn(self, request: Any) -> Any:
        """Bind a turn."""
        message = await self._answer("bind_turn", requests.bind_turn(request))
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
                return WireDispatch(
                    self, call, "resume_dispatch", first, self._tap.dispatches[request.dispatch_id]
                )

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
        if self.way == "lane":
            lane = await self.lanes.lane()
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
