"""Serves `DispatchService`: parses requests of the consumer-agent, calls the operations, and builds the responses.

The results of a dispatch go to a listener: the client's stream, or an object that waits for the end of the dispatch.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from grpc.aio import BaseError

from sidecar.core.dispatching.frames import DispatchResult, Frame
from sidecar.core.errors import FieldProblem, InternalError, InvalidRequest, Overloaded
from sidecar.core.identifiers import TurnId
from sidecar.core.user_tokens import UserToken
from sidecar.operations.deadlines import deadline_at
from sidecar.operations.ports import ListenerClosed
from sidecar.operations.process.turn_assembly import Operations
from sidecar.operations.trace_context import trace_of
from sidecar.operations.turn.deliver_frames import deliver_frames
from sidecar.rpc.methods import SENT_UNREAD, Call, Listener, Method, MethodShape
from sidecar.rpc.translate import enums, requests
from sidecar.rpc.translate.frames import Told, fill_frame, fill_result
from sidecar.rpc.translate.surfaces import BoundTurns, start_state
from sidecar.rpc.translate.turn_ends import ClosedTurns, child_message
from subagents.dispatch.v1 import dispatch_pb2
from subagents.dispatch.v1 import dispatch_pb2 as pb

if TYPE_CHECKING:
    from sidecar.operations.establish_principal import EstablishPrincipal

EVENTS_IN_A_FRAME: Final = 64
"""The most events of one frame. An event has up to 8 KiB besides its outcome; a message has at most 4 MiB."""
LARGE: Final = 1024 * 1024
"""If a message with events and result exceeds this many bytes, it is sent as two: both may have the same answers."""


Framed = dispatch_pb2.DispatchResponse | dispatch_pb2.ResumeDispatchResponse


class GrpcFrames:
    """Writes frames to the stream of a call, one at a time, so that at most one frame and gRPC's window are unread.

    Args:
        response: creates an empty response of the method, which has a `frame`.
        timeout: a listener that accepts no frame for this long counts as gone.
    """

    grace = timedelta(0)

    def __init__(self, call: Call, response: Callable[[], Framed], timeout: timedelta) -> None:
        self._call = call
        self._response = response
        self._timeout = timeout
        self._too_slow = False
        self._broken = False
        self._told: Told = {}
        self._last: bytes | None = None
        self._headers_sent = False

    async def send(self, frame: Frame) -> None:
        """Deliver one frame, or keep the one with the result for the end of the call. Raises `ListenerClosed`."""
        try:
            for part in parts_of(frame):
                raw = self._encode(part)
                if part.result is not None:
                    # Events and result in separate messages: otherwise the message could exceed the limit of the
                    # client.
                    if len(raw) > LARGE and part.events:
                        await self._write(self._encode(Frame(part.snapshot, part.events)))
                        raw = self._encode(Frame(None, (), part.result))
                    # Not written here: the last message and the status travel together, so that a client never sees a
                    # result without an end.
                    self._last = raw
                    return
                await self._write(raw)
        except TimeoutError:
            self._too_slow = True
            raise ListenerClosed from None
        # The client has gone, or its connection broke. The dispatch itself continues, or is stopped by its own policy.
        except BaseError:
            self._broken = True
            raise ListenerClosed from None

    def _encode(self, part: Frame) -> bytes:
        message = self._response()
        fill_frame(message.frame, part, self._told)
        return message.SerializeToString()

    async def _write(self, raw: bytes) -> None:
        """Write one message. Raises `TimeoutError` if the client does not accept it in time."""
        loop, context = asyncio.get_running_loop(), self._call.context
        # One limit for headers and message: the client must accept both within it.
        until = loop.time() + self._timeout.total_seconds()
        if len(raw) > SENT_UNREAD and not self._headers_sent:
            # Headers travel with the first message. If that message is never read, gRPC would try to send them again
            # with the status, fail, and leave the client without any end.
            self._headers_sent = True
            await deadline_at(until, context.send_initial_metadata(()), loop.call_at)
        await deadline_at(until, context.write(raw), loop.call_at)
        # `write` sends the headers, if they were not sent before.
        self._headers_sent = True

    def check(self) -> bytes | None:
        """Return the last message, if it must still be sent.

        Raises if the listener was abandoned or lost: otherwise the stream would end as if it were complete.
        """
        if self._broken:
            raise InternalError("the stream broke; listen again with ResumeDispatch")
        if self._too_slow:
            raise Overloaded(
                f"nothing was read from the stream for {self._timeout.total_seconds():g} s; read faster, and listen "
                "again with ResumeDispatch",
                retry_after=timedelta(0),
            )
        return self._last


def parts_of(frame: Frame) -> Sequence[Frame]:
    """Split a frame with many events, e.g. after a long interruption of the client, into several frames."""
    parts = []
    while len(frame.events) > EVENTS_IN_A_FRAME:
        # The snapshot leaves with the first part, and the result with the last: clients expect this order.
        parts.append(Frame(frame.snapshot, frame.events[:EVENTS_IN_A_FRAME]))
        frame = Frame(None, frame.events[EVENTS_IN_A_FRAME:], frame.result)
    parts.append(frame)
    return parts


class ResultOnly:
    """A listener that keeps the result and ignores all other frames."""

    grace = timedelta(0)

    def __init__(self) -> None:
        self.result: DispatchResult | None = None

    async def send(self, frame: Frame) -> None:
        """Keep the result."""
        self.result = frame.result or self.result


SERVICE: Final = "subagents.dispatch.v1.DispatchService"


CONTRACT_VERSION: Final = 1
QUESTIONS_FEATURE: Final = "questions"
"""The name of the feature that a call may answer the question of a suspended call. It is always offered."""
PLAIN_CONTRACT: Final = pb.Contract(version=CONTRACT_VERSION, features=[QUESTIONS_FEATURE])


def require_of(contract: pb.Contract, required: Sequence[str], field: str) -> None:
    """Refuse a request that requires a feature that `contract` lacks. Raises `FeatureUnsupported`, `InvalidRequest`."""
    from sidecar.core.features import require_features  # noqa: PLC0415  few requests name features

    require_features(required, contract.features, contract.version, field)


class DispatchServicer:
    """The service of the consumer-agent.

    Args:
        operations: the operations behind the service.
        write_timeout: a listener that accepts no frame for this long counts as gone.
        contract: the version and the features of the API that clients are offered.
        principals: verifies the user of a turn; None: the consumer-agent claims it.
    """

    def __init__(
        self,
        operations: Operations,
        write_timeout: timedelta,
        contract: pb.Contract = PLAIN_CONTRACT,
        principals: "EstablishPrincipal | None" = None,
    ) -> None:
        self._operations = operations
        self._write_timeout = write_timeout
        self._contract = contract
        self._principals = principals
        self._bound_turn, self._closed_turn = BoundTurns(contract), ClosedTurns()

    def without_lanes(self) -> Sequence[Method]:
        """Return the RPCs, with a `Session` that refuses lanes because they are not offered."""
        # With this method a client learns at its first message that lanes are off; without it, gRPC's status has no
        # reason.
        shape = MethodShape.MANY_TO_MANY
        lanes = Method(f"/{SERVICE}/Session", shape, pb.SessionRequest.FromString, self._no_session, reserved=True)
        return (*self.methods(), lanes)

    def methods(self) -> Sequence[Method]:
        """Return the RPCs, without lanes."""
        one, many = MethodShape.ONE_TO_ONE, MethodShape.WITH_LAST
        # In queues of their own, so that an excess of one kind, e.g. of binds, does not delay the others.
        method = partial(Method, own_queue=True)
        return (
            method(f"/{SERVICE}/BindTurn", one, pb.BindTurnRequest.FromString, self._bind_turn, begins_work=True),
            method(f"/{SERVICE}/Dispatch", many, pb.DispatchRequest.FromString, self._dispatch, batched=True),
            method(f"/{SERVICE}/DispatchUnary", one, pb.DispatchUnaryRequest.FromString, self._unary, batched=True),
            method(f"/{SERVICE}/ResumeDispatch", many, pb.ResumeDispatchRequest.FromString, self._resume),
            method(f"/{SERVICE}/CancelCall", one, pb.CancelCallRequest.FromString, self._cancel_call, ends_work=True),
            method(f"/{SERVICE}/CloseChild", one, pb.CloseChildRequest.FromString, self._close_child, ends_work=True),
            method(f"/{SERVICE}/EndTurn", one, pb.EndTurnRequest.FromString, self._end_turn, ends_work=True),
        )

    async def _bind_turn(self, message: pb.BindTurnRequest, call: Call) -> pb.BindTurnResponse:
        if message.required_features:
            require_of(self._contract, message.required_features, "required_features")
        verified, token = False, message.user_token  # kept here: `_establish_principal` clears the field
        if self._principals is not None:
            verified = self._establish_principal(self._principals, message)
        elif message.user_token:
            # Refused and not ignored: the client would believe that the token protects its user.
            problem = FieldProblem("user_token", "is not expected: this sidecar has no `principals` in its settings")
            raise InvalidRequest("BindTurnRequest cannot be used: nothing verifies user_token", fields=[problem])
        bound = await self._operations.bind_turn(requests.bind_turn(message, verified=verified))
        # After the bind: a refused bind must leave no token in memory.
        if verified and self._principals is not None and self._principals.tokens_needed:
            self._operations.turns.keep_user_token(TurnId(message.turn_id), UserToken(token))
        return self._bound_turn(bound)

    def _establish_principal(self, principals: "EstablishPrincipal", message: pb.BindTurnRequest) -> bool:
        """Set the established principal in a request, and remove its token. Return whether a token proved it."""
        # Cleared, so that no later layer logs or records the token.
        token, source = message.user_token, enums.SOURCES.get(message.source)
        message.ClearField("user_token")
        established = principals(token, message.principal, source)
        message.principal = established.principal
        return established.verified

    async def _no_session(self, messages: AsyncIterator[pb.SessionRequest], call: Call) -> None:
        require_of(self._contract, ("session",), "session")

    async def _dispatch(self, message: pb.DispatchRequest, call: Call) -> bytes | None:
        begun = await self._operations.dispatch_calls.begin(
            requests.dispatch(message), call.time_left, trace_of(call.metadata)
        )
        # An operation of a lane is its own listener.
        lane = call.lane
        frames: Listener = lane.listener() if lane else GrpcFrames(call, pb.DispatchResponse, self._write_timeout)
        await deliver_frames(begun, 0, frames)
        return frames.check()

    async def _unary(self, message: pb.DispatchUnaryRequest, call: Call) -> pb.DispatchUnaryResponse:
        if not message.HasField("dispatch"):
            problem = FieldProblem("dispatch", "is missing; put the DispatchRequest there")
            raise InvalidRequest("DispatchUnaryRequest cannot be used: dispatch is missing", fields=[problem])
        request = requests.dispatch(message.dispatch, "dispatch.")
        begun = await self._operations.dispatch_calls.begin(request, call.time_left, trace_of(call.metadata))
        listener = ResultOnly()
        # From the present sequence: a unary caller receives the result only, so no events are replayed.
        await deliver_frames(begun, begun.dispatch.sequence, listener)
        # Only after a defect: a dispatch that ends always has a result.
        if listener.result is None:
            raise InternalError("the dispatch ended without outcomes; repeat the request")
        answer = pb.DispatchUnaryResponse(state=start_state(attached=begun.attached))
        fill_result(answer.result, listener.result)
        return answer

    async def _resume(self, message: pb.ResumeDispatchRequest, call: Call) -> bytes | None:
        request = requests.resume(message)
        begun = await self._operations.resume_dispatch(request)
        lane, timeout = call.lane, self._write_timeout
        frames: Listener = lane.listener() if lane else GrpcFrames(call, pb.ResumeDispatchResponse, timeout)
        await deliver_frames(begun, request.after_sequence, frames)
        return frames.check()

    async def _cancel_call(self, message: pb.CancelCallRequest, call: Call) -> pb.CancelCallResponse:
        return pb.CancelCallResponse(cancelled=await self._operations.cancel_call(requests.cancel(message)))

    async def _close_child(self, message: pb.CloseChildRequest, call: Call) -> pb.CloseChildResponse:
        closed = await self._operations.close_child(requests.close_child(message))
        return pb.CloseChildResponse(child=child_message(closed))

    async def _end_turn(self, message: pb.EndTurnRequest, call: Call) -> pb.EndTurnResponse:
        closed, attached = await self._operations.end_turn(requests.end_turn(message))
        return self._closed_turn(closed, attached=attached)
