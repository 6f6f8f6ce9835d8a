"""In which order operations of a lane begin, and with which metadata, with handlers that a test holds up."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from google.protobuf.message import Message

from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds, SystemRandomness
from sidecar.rpc.authorisation import BOOT_SECRET_KEY, CallAdmission, CallerKind, Metadata
from sidecar.rpc.dispatch_servicer import SERVICE
from sidecar.rpc.handler_guard import SENT_AT_KEY, Guard, HandlerContext
from sidecar.rpc.methods import Call, Method, MethodShape
from sidecar.rpc.session.rules import OPERATIONS, LaneDependencies, SessionRules
from sidecar.rpc.session.servicer import SessionServicer
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.lane_stub import KeptLaneReports, hello, operation


class Handlers:
    """Handlers of all operations; the dispatch `held up` waits for a gate before it has begun.

    Attributes:
        waiting: set once it waits.
        ended: set once a turn has ended.
        metadata: of the last call that entered a handler.
    """

    def __init__(self) -> None:
        """Begin with a closed gate."""
        self.gate, self.waiting, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.entered: list[str] = []
        self.metadata: Metadata = ()

    def methods(self) -> list[Method]:
        """Return them."""
        return [
            Method(f"/{SERVICE}/{name}", MethodShape.ONE_TO_ONE, pb.SessionRequest.FromString, self._handler(kind))
            for kind, name in OPERATIONS.items()
        ]

    def _handler(self, kind: str) -> Any:
        async def handle(request: Message, call: Call) -> Message | None:
            if kind == "dispatch" and request.dispatch_id == "held up":  # type: ignore[attr-defined]  # a dispatch
                self.waiting.set()
                await self.gate.wait()
                assert call.lane is not None
                call.lane.listener()
            self.entered.append(kind)
            self.metadata = call.metadata
            if kind == "end_turn":
                self.ended.set()
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

    def auth_context(self) -> dict[str, list[bytes]]:
        """Return nothing: there is no TLS."""
        return {}

    def time_remaining(self) -> float:
        """Return a minute."""
        return 60.0

    def cancelled(self) -> bool:
        """Say no."""
        return False

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...], /) -> None:
        """Do nothing: an operation has no headers."""

    async def write(self, message: bytes, /) -> None:
        """Take a message."""
        self.written.append(pb.SessionResponse.FromString(message))


async def served(
    handlers: Handlers, entrance: CallAdmission, messages: AsyncIterator[pb.SessionRequest], metadata: Metadata = ()
) -> Context:
    """Serve one lane to its end, in this task; returns what it wrote."""
    context, tasks = Context(), OwnedTasks(lambda name, error: None)
    around = LaneDependencies(
        spawner=tasks, clock=SystemClock(), ids=SystemIds(), chance=SystemRandomness(), reports=KeptLaneReports()
    )
    (session,) = SessionServicer(SessionRules(), around, handlers.methods()).methods()
    guard = Guard(entrance, HandlerContext(lambda *_: None, lambda: "none"))
    async with asyncio.timeout(10):
        await session.handle(messages, Call(context, metadata, timedelta(seconds=60), "", guard=guard))
    await tasks.close()
    return context


def dispatch(number: int, dispatch_id: str) -> pb.SessionOperation:
    """Return an operation that begins a dispatch of the turn `one`."""
    return operation(number, dispatch=pb.DispatchRequest(surface_token="one", dispatch_id=dispatch_id))


async def test_what_is_sent_after_a_dispatch_of_the_same_turn_begins_after_it() -> None:
    """Its cancel and the end of its turn are held up with the dispatch; the end of another turn is not."""
    handlers = Handlers()

    async def messages() -> AsyncIterator[pb.SessionRequest]:
        yield hello()
        yield pb.SessionRequest(
            operations=[
                dispatch(1, "held up"),
                operation(2, cancel_call=pb.CancelCallRequest(surface_token="one", dispatch_id="held up")),
                operation(3, end_turn=pb.EndTurnRequest(surface_token="one")),
                operation(4, end_turn=pb.EndTurnRequest(surface_token="another")),
            ]
        )
        await handlers.ended.wait()
        assert handlers.entered == ["end_turn"]
        handlers.gate.set()

    await served(handlers, CallAdmission(CallerKind.CONSUMER_AGENT), messages())
    assert handlers.entered == ["end_turn", "dispatch", "cancel_call", "end_turn"]


async def test_a_resume_or_cancel_waits_for_no_dispatch_but_its_own() -> None:
    """While another dispatch of the turn opens, a stop takes effect: the store may need seconds for that opening."""
    handlers = Handlers()

    async def messages() -> AsyncIterator[pb.SessionRequest]:
        yield hello()
        yield pb.SessionRequest(
            operations=[
                dispatch(1, "held up"),
                operation(2, cancel_call=pb.CancelCallRequest(surface_token="one", dispatch_id="earlier")),
                operation(3, resume_dispatch=pb.ResumeDispatchRequest(surface_token="one", dispatch_id="earlier")),
                operation(4, close_child=pb.CloseChildRequest(surface_token="one", child_id="of the earlier one")),
                operation(5, end_turn=pb.EndTurnRequest(surface_token="another")),
            ]
        )
        await handlers.ended.wait()
        assert handlers.entered == ["cancel_call", "resume_dispatch", "close_child", "end_turn"]
        handlers.gate.set()

    await served(handlers, CallAdmission(CallerKind.CONSUMER_AGENT), messages())
    assert handlers.entered[-1] == "dispatch"


async def test_the_end_waits_for_a_dispatch_even_if_a_later_one_was_abandoned() -> None:
    """The later dispatch waits itself. When it is abandoned, the end of the turn must not overtake the earlier one."""
    handlers = Handlers()

    async def messages() -> AsyncIterator[pb.SessionRequest]:
        yield hello()
        yield pb.SessionRequest(operations=[dispatch(1, "held up"), dispatch(2, "later")])
        await handlers.waiting.wait()
        yield pb.SessionRequest(
            operations=[operation(3, end_turn=pb.EndTurnRequest(surface_token="one"))], abandons=[2]
        )
        yield pb.SessionRequest(operations=[operation(4, end_turn=pb.EndTurnRequest(surface_token="another"))])
        await handlers.ended.wait()
        assert handlers.entered == ["end_turn"]
        handlers.gate.set()

    await served(handlers, CallAdmission(CallerKind.CONSUMER_AGENT), messages())
    assert handlers.entered == ["end_turn", "dispatch", "end_turn"]


async def test_each_operation_is_authorised_as_its_rpc() -> None:
    """Whatever let the lane in: no handler is reached by an operation that its RPC would not let in."""
    for entrance, reason in (
        (CallAdmission(CallerKind.CONSUMER_AGENT, "the secret of a listener"), "BOOT_SECRET_WRONG"),
        (CallAdmission(CallerKind.RUNNER_HOST), "WRONG_LISTENER"),
    ):
        handlers = Handlers()

        async def messages() -> AsyncIterator[pb.SessionRequest]:
            yield hello()
            yield pb.SessionRequest(operations=[operation(1, bind_turn=pb.BindTurnRequest())])

        context = await served(handlers, entrance, messages())
        statuses = [result.status for message in context.written for result in message.results]
        assert [status.reason for status in statuses] == [reason]
        assert handlers.entered == []


async def test_an_operation_has_not_waited_since_its_lane_was_opened() -> None:
    """It has the metadata of the lane's call, but not the time at which that was sent."""
    handlers = Handlers()

    async def messages() -> AsyncIterator[pb.SessionRequest]:
        yield hello()
        yield pb.SessionRequest(operations=[operation(1, end_turn=pb.EndTurnRequest(surface_token="one"))])
        await handlers.ended.wait()

    secret = (BOOT_SECRET_KEY, "the secret of a listener")
    entrance = CallAdmission(CallerKind.CONSUMER_AGENT, secret[1])
    await served(handlers, entrance, messages(), (secret, (SENT_AT_KEY, "17")))
    assert handlers.metadata == (secret,)
