"""In which order operations of a lane begin, with handlers that a test holds up."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from google.protobuf.message import Message

from sidecar.adapters.system import OwnedTasks, SystemChance, SystemClock, SystemIds
from sidecar.rpc.authorisation import CallerKind, Entrance
from sidecar.rpc.dispatch_servicer import SERVICE
from sidecar.rpc.guarding import Guard, Surroundings
from sidecar.rpc.methods import Call, Method, Shape
from sidecar.rpc.session.rules import OPERATIONS, SessionRules, SessionSurroundings
from sidecar.rpc.session.servicer import SessionServicer
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.lane_stub import KeptLaneReports, hello, operation


class Handlers:
    """Handlers of all operations; a dispatch waits for its gate before it has begun."""

    def __init__(self) -> None:
        """Begin with a closed gate."""
        self.gate = asyncio.Event()
        self.entered: list[str] = []

    def methods(self) -> list[Method]:
        """Return them."""
        return [
            Method(f"/{SERVICE}/{name}", Shape.ONE_TO_ONE, pb.SessionRequest.FromString, self._handler(kind))
            for kind, name in OPERATIONS.items()
        ]

    def _handler(self, kind: str) -> Any:
        async def handle(request: Message, call: Call) -> Message | None:
            if kind == "dispatch" and request.surface_token == "held up":  # type: ignore[attr-defined]  # a dispatch
                await self.gate.wait()
                assert call.lane is not None
                call.lane.listener()
            self.entered.append(kind)
            return pb.CancelCallResponse() if kind == "cancel_call" else None

        return handle


class Context:
    """The other end of the lane's call."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self.written: list[pb.SessionResponse] = []

    def invocation_metadata(self) -> Any:
        """Return nothing."""
        return ()

    def time_remaining(self) -> float:
        """Return a minute."""
        return 60.0

    def cancelled(self) -> bool:
        """Say no."""
        return False

    async def write(self, message: bytes, /) -> None:
        """Take a message."""
        self.written.append(pb.SessionResponse.FromString(message))


async def test_what_is_sent_after_a_dispatch_of_the_same_turn_begins_after_it() -> None:
    """The cancel is held up with the dispatch; that of another turn is not; nothing is, once the dispatch has begun."""
    handlers, context, tasks = Handlers(), Context(), OwnedTasks(lambda name, error: None)
    around = SessionSurroundings(
        spawner=tasks, clock=SystemClock(), ids=SystemIds(), chance=SystemChance(), reports=KeptLaneReports()
    )
    servicer = SessionServicer(SessionRules(), around, handlers.methods())
    guard = Guard(Entrance(CallerKind.CONSUMER_AGENT), Surroundings(lambda *_: None, lambda: "none"))
    others = asyncio.Event()

    async def messages() -> AsyncIterator[pb.SessionRequest]:
        yield hello()
        yield pb.SessionRequest(
            operations=[
                operation(1, dispatch=pb.DispatchRequest(surface_token="held up")),
                operation(2, cancel_call=pb.CancelCallRequest(surface_token="held up")),
                operation(3, end_turn=pb.EndTurnRequest(surface_token="another turn")),
            ]
        )
        while not others.is_set():
            await asyncio.sleep(0)
            if "end_turn" in handlers.entered:
                others.set()
        assert handlers.entered == ["end_turn"]
        handlers.gate.set()

    (session,) = servicer.methods()
    call = Call(context, (), timedelta(seconds=60), "", guard=guard)
    async with asyncio.timeout(10):
        await session.handle(messages(), call)
    assert handlers.entered == ["end_turn", "dispatch", "cancel_call"]
    await tasks.close()
