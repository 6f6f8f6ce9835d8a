"""A sidecar that does what a test tells it, behind a real Unix socket that can be cut."""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from google.protobuf.message import Message

from clients.python.tests.support.fake_history import FakeHistory
from subagents.dispatch.v1 import dispatch_pb2, dispatch_pb2_grpc, outcome_pb2, surface_pb2
from subagents.history.v1 import history_pb2_grpc
from subagents_client import BoundTurn, ClientRuntime, ClientTimeouts, SidecarClient, ToolCall, TurnRequest
from subagents_client.errors import status_of, trailer_of
from subagents_errors import SubagentsError
from tests.support.cable import Cable, cable

TOOLS = ("ask_shop", "ask_rewards", "ask_support")
REQUEST = TurnRequest(principal="user-1", episode_id="episode-1")
CALLS = [ToolCall("call-1", "ask_shop"), ToolCall("call-2", "ask_rewards")]


def status_event(sequence: int) -> dispatch_pb2.DispatchEvent:
    """Return a progress event."""
    return dispatch_pb2.DispatchEvent(
        sequence=sequence,
        call_id="call-1",
        status=dispatch_pb2.StatusUpdate(type="searching_offers", sub_agent_ids=["shop"], count=1),
    )


def answered(call: dispatch_pb2.ToolCall) -> outcome_pb2.CallOutcome:
    """Return an outcome with an answer."""
    return outcome_pb2.CallOutcome(
        call_id=call.call_id,
        tool_name=call.tool_name,
        sub_agent_id=call.tool_name.removeprefix("ask_"),
        outcome=outcome_pb2.OUTCOME_SUCCEEDED,
        narration=f"answer to {call.call_id}",
        child_id=f"child-{call.call_id}",
    )


def settled_event(sequence: int, call: ToolCall) -> dispatch_pb2.DispatchEvent:
    """Return that a call has settled, with its outcome."""
    outcome = answered(dispatch_pb2.ToolCall(call_id=call.call_id, tool_name=call.tool_name))
    changed = dispatch_pb2.CallStateChanged(state=dispatch_pb2.CALL_STATE_SETTLED, outcome=outcome)
    return dispatch_pb2.DispatchEvent(sequence=sequence, call_id=call.call_id, state_changed=changed)


@dataclass
class FakeSidecar(dispatch_pb2_grpc.DispatchServiceServicer):
    """Answers every method as a sidecar would, except where told otherwise.

    Attributes:
        events: what each dispatch has to tell before its result.
        compaction_due: what each bind says.
        history: the other service on its socket.
        cuts: after the event with the next of these sequences the connection breaks (0: before the first frame).
        refusals: by method: what it fails with, once each, before it answers.
        hangs: streams say no more after their events.
        forgetful: `ResumeDispatch` knows no dispatch, as after a restart.
        received: (method, request), in order.
        secrets: the boot secret of each request.
        traces: the `traceparent` of each request that has one.
        reached: set when a stream hangs.
        cancelled: set when a call was cancelled.
    """

    cap: int = 3
    events: Sequence[dispatch_pb2.DispatchEvent] = ()
    cuts: deque[int] = field(default_factory=deque)
    refusals: dict[str, deque[SubagentsError]] = field(default_factory=lambda: defaultdict(deque))
    hangs: bool = False
    forgetful: bool = False
    received: list[tuple[str, Message]] = field(default_factory=list)
    secrets: list[Any] = field(default_factory=list)
    traces: list[Any] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    line: Cable | None = None
    compaction_due: Any = dispatch_pb2.COMPACTION_DUE_UNSPECIFIED
    history: FakeHistory = field(default_factory=FakeHistory)

    def methods(self) -> list[str]:
        """Return what was called, in order."""
        return [name for name, _ in self.received]

    async def _admit(self, method: str, request: Message, context: Any) -> None:
        self.received.append((method, request))
        self.secrets += [value for key, value in context.invocation_metadata() if key == "x-subagents-boot-secret"]
        self.traces += [value for key, value in context.invocation_metadata() if key == "traceparent"]
        if self.refusals[method]:
            error = self.refusals[method].popleft()
            await context.abort(status_of(type(error)), error.message, trailing_metadata=tuple(trailer_of(error)))

    async def BindTurn(self, request: dispatch_pb2.BindTurnRequest, context: Any) -> dispatch_pb2.BindTurnResponse:
        """Bind every turn to the same three tools."""
        await self._admit("BindTurn", request, context)
        tools = [
            surface_pb2.SubAgentTool(
                name=name, sub_agent_id=name.removeprefix("ask_"), arguments_schema_json='{"type": "object"}'
            )
            for name in TOOLS
        ]
        surface = surface_pb2.Surface(sub_agent_tools=tools, fan_out_cap=self.cap, binding_digest="sha256:1")
        return dispatch_pb2.BindTurnResponse(
            surface=surface,
            surface_token="token",
            state=dispatch_pb2.START_STATE_STARTED,
            compaction_due=self.compaction_due,
        )

    async def Dispatch(
        self, request: dispatch_pb2.DispatchRequest, context: Any
    ) -> AsyncIterator[dispatch_pb2.DispatchResponse]:
        """Tell the events and the outcomes."""
        await self._admit("Dispatch", request, context)
        async for frame in self._frames(request, 0):
            yield dispatch_pb2.DispatchResponse(frame=frame)

    async def ResumeDispatch(
        self, request: dispatch_pb2.ResumeDispatchRequest, context: Any
    ) -> AsyncIterator[dispatch_pb2.ResumeDispatchResponse]:
        """Tell the rest."""
        await self._admit("ResumeDispatch", request, context)
        begun = next((one for _, one in self.received if isinstance(one, dispatch_pb2.DispatchRequest)), None)
        dispatch = begun or dispatch_pb2.DispatchRequest(dispatch_id=request.dispatch_id)
        async for frame in self._frames(dispatch, request.after_sequence):
            yield dispatch_pb2.ResumeDispatchResponse(frame=frame)

    async def _frames(
        self, request: dispatch_pb2.DispatchRequest, after: int
    ) -> AsyncIterator[dispatch_pb2.DispatchFrame]:
        self._cut_at(0)
        yield dispatch_pb2.DispatchFrame(
            snapshot=dispatch_pb2.DispatchSnapshot(dispatch_id=request.dispatch_id, sequence=after)
        )
        for event in self.events:
            # The first one again: a sidecar that overlaps must not make the client tell an event twice.
            if event.sequence >= after:
                yield dispatch_pb2.DispatchFrame(events=[event])
                self._cut_at(event.sequence)
        if self.hangs:
            self.reached.set()
            await asyncio.Event().wait()
        outcomes = [answered(one) for one in request.calls]
        told = {each.call_id for each in self.events if each.HasField("state_changed") and each.sequence >= after}
        for outcome in outcomes:
            if outcome.call_id in told:
                outcome.ClearField("narration")
        yield dispatch_pb2.DispatchFrame(result=dispatch_pb2.DispatchResult(outcomes=outcomes))

    def _cut_at(self, sequence: int) -> None:
        if self.cuts and self.cuts[0] == sequence and self.line is not None:
            self.cuts.popleft()
            self.line.cut()

    async def DispatchUnary(self, request: Any, context: Any) -> dispatch_pb2.DispatchUnaryResponse:
        """Answer nothing: the SDK does not use it."""
        return dispatch_pb2.DispatchUnaryResponse()

    async def CancelCall(self, request: Any, context: Any) -> dispatch_pb2.CancelCallResponse:
        """Cancel anything."""
        await self._admit("CancelCall", request, context)
        self.cancelled.set()
        return dispatch_pb2.CancelCallResponse(cancelled=True)

    async def CloseChild(self, request: Any, context: Any) -> dispatch_pb2.CloseChildResponse:
        """Close anything."""
        await self._admit("CloseChild", request, context)
        return dispatch_pb2.CloseChildResponse(child=dispatch_pb2.ChildSummary(child_id=request.child_id))

    async def EndTurn(self, request: Any, context: Any) -> dispatch_pb2.EndTurnResponse:
        """End any turn."""
        await self._admit("EndTurn", request, context)
        return dispatch_pb2.EndTurnResponse(state=dispatch_pb2.START_STATE_STARTED, gate_passed=True)


@dataclass
class Pauses:
    """Stands in for `sleep`: notes what was asked and goes on at once."""

    asked: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Let others run."""
        self.asked.append(seconds)
        await asyncio.sleep(0)


@dataclass
class Scene:
    """A fake sidecar, its socket, and a client of it."""

    sidecar: FakeSidecar
    line: Cable
    server: grpc.aio.Server
    target: str
    client: SidecarClient
    pauses: Pauses
    request: TurnRequest = REQUEST

    async def turn(self) -> BoundTurn:
        """Bind a turn."""
        return await self.client.bind_turn(self.request)

    async def die(self) -> None:
        """Make the sidecar go away for good."""
        await self.server.stop(0)
        self.line.cut()


@asynccontextmanager
async def scene(sidecar: FakeSidecar | None = None, timeouts: ClientTimeouts | None = None) -> AsyncIterator[Scene]:
    """Start a fake sidecar behind a cable, and a client."""
    fake, pauses = sidecar or FakeSidecar(), Pauses()
    with TemporaryDirectory() as folder:
        front, behind = Path(folder) / "front.sock", Path(folder) / "behind.sock"
        server = grpc.aio.server()
        dispatch_pb2_grpc.add_DispatchServiceServicer_to_server(fake, server)
        history_pb2_grpc.add_HistoryServiceServicer_to_server(fake.history, server)
        server.add_insecure_port(f"unix:{behind}")
        await server.start()
        runtime = ClientRuntime(sleep=pauses.sleep, chance=Random(7))
        async with cable(front, behind) as line:
            fake.line = line
            target = f"unix:{front}"
            async with SidecarClient.connect(
                target, boot_secret="secret-1", timeouts=timeouts, runtime=runtime
            ) as client:
                try:
                    yield Scene(fake, line, server, target, client, pauses)
                finally:
                    await server.stop(0)
