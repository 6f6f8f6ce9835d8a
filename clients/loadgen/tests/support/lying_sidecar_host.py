"""A server that keeps the contract but for one lie."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from clients.loadgen.tests.support.answers import a_bound_turn, a_frame, an_ended_turn, an_outcome
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc, outcome_pb2

ENOUGH = 20
Lie = Callable[[list[outcome_pb2.CallOutcome]], object]
"""Changes the outcomes before they are sent."""


class LyingSidecar(dispatch_pb2_grpc.DispatchServiceServicer):
    """Answers at once.

    Attributes:
        lie: what becomes of the outcomes.
        surface: what every turn is bound to.
        peers: the connections that turns came over.
        resumed_by: the connections that dispatches were resumed over.
        principals: of the turns, in order.
        has_enough: set once 20 turns were bound.
        left: dispatches that go on when their client leaves, and were left.
    """

    def __init__(self, lie: Lie = lambda outcomes: None) -> None:
        self.lie = lie
        self.surface = a_bound_turn()
        self.peers: set[str] = set()
        self.resumed_by: set[str] = set()
        self.principals: list[str] = []
        self.left: set[str] = set()
        self.has_enough = asyncio.Event()
        self._running: dict[str, pb.DispatchRequest] = {}
        self._outcomes: dict[str, list[outcome_pb2.CallOutcome]] = {}

    async def BindTurn(self, request: pb.BindTurnRequest, context: Any) -> pb.BindTurnResponse:
        """Bind a turn."""
        self.peers.add(context.peer())
        self.principals.append(request.principal)
        if len(self.principals) >= ENOUGH:
            self.has_enough.set()
        bound = pb.BindTurnResponse()
        bound.CopyFrom(self.surface)
        bound.surface_token = request.turn_id
        return bound

    async def Dispatch(self, request: pb.DispatchRequest, context: Any) -> AsyncIterator[pb.DispatchResponse]:
        """Stream two frames; where the client said that it may leave, only the first, until it does."""
        ids = [one.call_id for one in request.calls]
        goes_on = request.on_disconnect == pb.ON_DISCONNECT_CONTINUE
        if goes_on:
            # Before the frame is sent: a client can read it, leave and resume before this coroutine continues.
            self._running[request.dispatch_id] = request
            context.add_done_callback(lambda _: self.left.add(request.dispatch_id))
        yield pb.DispatchResponse(frame=a_frame(snapshot=ids, dispatch_id=request.dispatch_id))
        if goes_on:
            await asyncio.Event().wait()
        yield pb.DispatchResponse(frame=a_frame(outcomes=self._answered(request)))

    async def ResumeDispatch(
        self, request: pb.ResumeDispatchRequest, context: Any
    ) -> AsyncIterator[pb.ResumeDispatchResponse]:
        """Stream the rest of a dispatch that was left."""
        self.resumed_by.add(context.peer())
        dispatch = self._running[request.dispatch_id]
        ids = [one.call_id for one in dispatch.calls]
        yield pb.ResumeDispatchResponse(frame=a_frame(snapshot=ids, dispatch_id=request.dispatch_id))
        yield pb.ResumeDispatchResponse(frame=a_frame(outcomes=self._answered(dispatch)))

    async def DispatchUnary(self, request: pb.DispatchUnaryRequest, context: Any) -> pb.DispatchUnaryResponse:
        """Answer once."""
        result = pb.DispatchResult(outcomes=self._answered(request.dispatch))
        return pb.DispatchUnaryResponse(state=pb.START_STATE_STARTED, result=result)

    async def EndTurn(self, request: pb.EndTurnRequest, context: Any) -> pb.EndTurnResponse:
        """End the turn that the token names."""
        return an_ended_turn(self._outcomes.get(request.surface_token, []))

    def _answered(self, request: pb.DispatchRequest) -> list[outcome_pb2.CallOutcome]:
        outcomes = [an_outcome(one.call_id) for one in request.calls]
        self.lie(outcomes)
        self._outcomes[request.surface_token] = outcomes
        return outcomes


@asynccontextmanager
async def served(servicer: LyingSidecar, *, over_tcp: bool = False) -> AsyncIterator[str]:
    """Serve while the context is open; gives the target. Over TCP, connections can be told apart."""
    with tempfile.TemporaryDirectory(prefix="lg") as folder:
        server = grpc.aio.server()
        dispatch_pb2_grpc.add_DispatchServiceServicer_to_server(servicer, server)
        target = f"unix:{Path(folder) / 's'}"
        port = server.add_insecure_port("127.0.0.1:0" if over_tcp else target)
        await server.start()
        try:
            yield f"127.0.0.1:{port}" if over_tcp else target
        finally:
            await server.stop(None)
