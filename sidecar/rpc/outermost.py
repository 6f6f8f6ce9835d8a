"""Wraps every gRPC handler: counts and limits calls, and maps each result and exception to a status.

The wrapper is a handler and not a `grpc.aio` interceptor, which would cost a task and a queue for each call. Requests
arrive as bytes, so that they are parsed after the caller was admitted.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from time import perf_counter
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from grpc import StatusCode

from sidecar.core.errors import AdmissionRefused, SubagentsError
from sidecar.rpc.authorisation import CALLERS_OF, CallAdmission, admit
from sidecar.rpc.errors import RichStatus, rich_status
from sidecar.rpc.handler_guard import Guard, HandlerContext, parsed
from sidecar.rpc.in_flight import StartBatches
from sidecar.rpc.methods import SENT_UNREAD, Call, GrpcContext, Method, MethodShape

ABORT_SECONDS: Final = 1.0
"""The longest wait in seconds for a status to be sent: it follows messages that the client may never read."""
DEADLINE_SLACK: Final = 0.1
"""Seconds for which a request may have travelled: the client's deadline passes by as much before the one known here."""
CARRIER: Final = "rpc"
"""The transport of these calls, in metrics; operations of a lane have another."""
OK: Final = StatusCode.OK.name
CALLS_LIMIT: Final = "calls"
"""The name of the limit of concurrent calls, in metrics and errors."""
CALLS_RETRY: Final = timedelta(milliseconds=250)


class ErrorInterceptor(grpc.GenericRpcHandler):
    """Serves the methods of one listener.

    Args:
        entrance: the admission rules.
        methods: of the listener.
        handler_context: the dependencies of the wrapper on the process.
        most_calls: the most concurrent calls over all connections, without calls that end work and those of operators.
    """

    def __init__(
        self,
        entrance: CallAdmission,
        methods: Sequence[Method],
        handler_context: HandlerContext,
        most_calls: int = sys.maxsize,
    ) -> None:
        """Create a handler for each method, and a refusing handler for each method that is for other callers."""
        self._entrance = entrance
        self._most_calls, self._calls = most_calls, 0
        self._in_flight, self._on_ended = handler_context.in_flight, handler_context.on_ended
        self._guard = Guard(entrance, handler_context)
        # Built once, like the error itself: this status is sent most often when the sidecar is overloaded.
        self._too_late = rich_status(self._guard.too_late)
        self._batches = StartBatches()
        self._write_seconds = handler_context.rules.write_timeout.total_seconds()
        forbidden = [name for name, callers in CALLERS_OF.items() if entrance.callers not in callers]
        # These methods get a handler, too: without one, gRPC would respond UNIMPLEMENTED, and the client could not see
        # that it uses the wrong listener.
        handlers = {name: self._refusing(name) for name in forbidden}
        self._handlers: Mapping[str, Any] = handlers | {method.name: self._handler(method) for method in methods}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method, or None: gRPC then responds UNIMPLEMENTED."""
        return self.handler(handler_call_details.method)

    def handler(self, name: str) -> Any:
        """Return the handler of a method by its name, or None."""
        return self._handlers.get(name)

    def _handler(self, method: Method) -> Any:
        if method.shape is MethodShape.ONE_TO_ONE:

            async def answer(raw: bytes, context: GrpcContext) -> bytes | None:
                return await self._run_guarded(method, context, lambda call: self._one_to_one(method, raw, call), raw)

            return grpc.unary_unary_rpc_method_handler(answer)
        if method.shape is MethodShape.ONE_TO_MANY:

            async def stream(raw: bytes, context: GrpcContext) -> None:
                await self._run_guarded(method, context, lambda call: method.handle(parsed(method, raw), call), raw)

            return grpc.unary_stream_rpc_method_handler(stream)
        if method.shape is MethodShape.WITH_LAST:

            async def end(raw: bytes, context: GrpcContext) -> bytes | None:
                last = await self._run_guarded(
                    method, context, lambda call: method.handle(parsed(method, raw), call), raw
                )
                # The drain counter is already reduced, although gRPC sends a large message only while the client reads.
                if last is not None and len(last) > SENT_UNREAD:
                    self._hold_drain(method, context)
                return last

            # On the wire, a stream of one message equals a single response. A returned message is sent together with
            # the status, which saves a packet.
            return grpc.unary_unary_rpc_method_handler(end)

        async def converse(raws: AsyncIterator[bytes], context: GrpcContext) -> None:
            await self._run_guarded(method, context, lambda call: method.handle(_parse_all(method, raws), call))

        return grpc.stream_stream_rpc_method_handler(converse)

    def _refusing(self, name: str) -> Any:
        """Return a handler for a method that the callers of this listener may not call."""

        async def refuse(_: AsyncIterator[bytes], context: GrpcContext) -> None:
            try:
                # Raises in every case, because these methods are those that the table forbids here.
                admit(name, (), self._entrance)
            except SubagentsError as refusal:
                status = rich_status(refusal)
                self._on_ended(0.0, name[1:], status.code.name, refusal.reason, CARRIER)
                await _end(context, status)

        # This shape accepts calls of every shape, and reads no request.
        return grpc.stream_stream_rpc_method_handler(refuse)

    def _hold_drain(self, method: Method, context: GrpcContext) -> None:
        """Let a drain wait until a large last message is sent, no longer than for any other message."""
        # Two callbacks compete, the end of the call and the timer. Only the first may count.
        ended = asyncio.Event()

        def end(_: object = None) -> None:
            if not ended.is_set():
                ended.set()
                self._in_flight.end(method.name)

        self._in_flight.begin(method.name)
        context.add_done_callback(end)
        asyncio.get_running_loop().call_later(self._write_seconds, end)

    async def _one_to_one(self, method: Method, raw: bytes, call: Call) -> bytes:
        answer: Message = await method.handle(parsed(method, raw), call)
        return answer.SerializeToString()

    async def _run_guarded(
        self, method: Method, context: GrpcContext, work: Callable[[Call], Awaitable[bytes | None]], raw: bytes = b""
    ) -> bytes | None:
        # An empty code means that no status was decided: the client left.
        began, code, reason = perf_counter(), "", ""
        counted = not method.reserved
        limited = not (method.reserved or method.urgent or method.ends_work)
        if counted:
            self._in_flight.begin(method.name)
        # Decided before the first await: calls that arrive in one pass of the loop cannot exceed the limit together.
        # Calls that end work are not limited, because they free places.
        full = limited and self._calls >= self._most_calls
        # Counted although it may be refused: `finally` subtracts it again in every case.
        self._calls += limited
        turn = self._batches.join() if method.batched and not full else None
        try:
            answer = self._refuse_call() if full else await self._guard(method, context, work, raw, turn)
            if isinstance(answer, SubagentsError):
                status = self._too_late if answer is self._guard.too_late else rich_status(answer)
                # Without a code here, `_left` finds out below whether the client cancelled or its deadline passed.
                if not _is_cancelled():
                    code, reason = status.code.name, answer.reason
                await _end(context, status)
                return None
            code = OK
            return answer
        finally:
            if turn is not None:
                # In every case: a batch that counts a call that has ended would delay the next one.
                self._batches.leave(turn)
            self._calls -= limited
            if counted:
                self._in_flight.end(method.name)
            took = perf_counter() - began
            self._on_ended(took, method.name[1:], code or _left(context, took), reason, CARRIER)

    def _refuse_call(self) -> AdmissionRefused:
        """Report a call beyond the limit, and return its error. This must cost little: it happens under overload."""
        refused = AdmissionRefused(
            f"{self._most_calls} calls are being served on this listener; come back when some of them are answered, or "
            "raise the limit in server.limits",
            metadata={"limit": CALLS_LIMIT, "most": str(self._most_calls)},
            retry_after=CALLS_RETRY,
        )
        self._guard.note(refused)
        return refused


def _is_cancelled() -> bool:
    """Return whether gRPC has cancelled the handler because its client left.

    `ServicerContext.cancelled` does not show it.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _left(context: GrpcContext, took: float) -> str:
    """Return the code of a call whose client left: it cancelled, or its deadline passed after `took` seconds.

    The client's core sends the same reset for both, and rounds the timeout that it sends up by as much as 1 %: its
    deadline passes before the one that is known here.
    """
    seconds = context.time_remaining()
    expired = seconds is not None and seconds <= DEADLINE_SLACK + took / 100
    return (StatusCode.DEADLINE_EXCEEDED if expired else StatusCode.CANCELLED).name


async def _parse_all(method: Method, raws: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for raw in raws:
        # Parsed one by one, as the handler asks for them: the client cannot make the sidecar parse ahead.
        yield parsed(method, raw)


async def _end(context: GrpcContext, status: RichStatus) -> None:
    """End the call with a status. gRPC requires that the exception of `abort` leaves the handler."""
    try:
        # Without the limit, a client that reads nothing would keep its call, and so a drain, for ever.
        async with asyncio.timeout(ABORT_SECONDS):
            await context.abort(status.code, status.message, trailing_metadata=status.trailing_metadata)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError:
        return  # the call has ended
    except TimeoutError:
        return  # gRPC has the status, and sends it if the client ever reads the messages before it
