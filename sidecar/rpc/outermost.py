"""The one wrapper around every handler: lets in, parses, and turns whatever happens into a status.

It is a handler of its own and no `grpc.aio` interceptor, which would cost a task and a queue for each call. Requests
arrive as bytes, so that parsing happens inside.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message
from msgspec import Struct, field

from sidecar.core.errors import AdmissionRefused, DeadlineTooShort, InternalFault, MalformedMessage, SubagentsError
from sidecar.rpc.authorisation import CALLERS_OF, Entrance, admit, caller_of
from sidecar.rpc.errors import RichStatus, rich_status
from sidecar.rpc.in_flight import InFlight
from sidecar.rpc.methods import Call, GrpcContext, Method, Shape, time_left

OnDefect = Callable[[str, str, BaseException], None]
"""Told of a defect: method, correlation id, what was raised. For the log; must not raise."""

OnLimit = Callable[[str], None]
"""Told of a call that a limit did not let through: which limit. For log and counter; must not raise."""

ABORT_SECONDS: Final = 1.0
"""Longest to wait for a status to be sent: it comes after messages that the client may never read."""


class ServingRules(Struct, frozen=True):
    """How calls are let in.

    Attributes:
        least_time: a call with less time than this is refused at once; begun late, it would be answered too late, and
            take the time of one that is not late yet (research/reliability.md finding 7).
        write_timeout: a listener that has not taken a frame for this long is given up.
    """

    least_time: timedelta = timedelta(milliseconds=10)
    write_timeout: timedelta = timedelta(seconds=10)


class Surroundings(Struct, frozen=True):
    """What the wrapper needs of the process.

    Attributes:
        in_flight: shared by all listeners; what a drain waits for.
        on_defect: where tracebacks go, and nowhere else.
        correlation_id: makes the id that caller and log share.
        on_limit: what hears of refusals for a limit.
    """

    on_defect: OnDefect
    correlation_id: Callable[[], str]
    in_flight: InFlight = field(default_factory=InFlight)
    rules: ServingRules = field(default_factory=ServingRules)
    on_limit: OnLimit = lambda _: None


class Outermost(grpc.GenericRpcHandler):
    """Serves the methods of one listener."""

    def __init__(self, entrance: Entrance, methods: Sequence[Method], surroundings: Surroundings) -> None:
        """Make a handler for each method, and one that refuses for each that is for other callers."""
        self._entrance = entrance
        self._around = surroundings
        elsewhere = [name for name, callers in CALLERS_OF.items() if entrance.callers not in callers]
        handlers = {name: self._refusing(name) for name in elsewhere}
        self._handlers: Mapping[str, Any] = handlers | {method.name: self._handler(method) for method in methods}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method, or None: gRPC answers UNIMPLEMENTED then."""
        return self._handlers.get(handler_call_details.method)

    def _handler(self, method: Method) -> Any:
        if method.shape is Shape.ONE_TO_ONE:

            async def answer(raw: bytes, context: GrpcContext) -> bytes | None:
                return await self._guarded(method, context, lambda call: self._one_to_one(method, raw, call), raw)

            return grpc.unary_unary_rpc_method_handler(answer)
        if method.shape is Shape.ONE_TO_MANY:

            async def stream(raw: bytes, context: GrpcContext) -> None:
                await self._guarded(method, context, lambda call: method.handle(_parsed(method, raw), call), raw)

            return grpc.unary_stream_rpc_method_handler(stream)

        async def converse(raws: AsyncIterator[bytes], context: GrpcContext) -> None:
            await self._guarded(method, context, lambda call: method.handle(_all_parsed(method, raws), call))

        return grpc.stream_stream_rpc_method_handler(converse)

    def _refusing(self, name: str) -> Any:
        """Return a handler for a method that the callers of this listener may not call."""

        async def refuse(_: AsyncIterator[bytes], context: GrpcContext) -> None:
            try:
                admit(name, (), self._entrance)
            except SubagentsError as refusal:
                await _end(context, rich_status(refusal))

        return grpc.stream_stream_rpc_method_handler(refuse)

    async def _one_to_one(self, method: Method, raw: bytes, call: Call) -> bytes:
        answer: Message = await method.handle(_parsed(method, raw), call)
        return answer.SerializeToString()

    async def _guarded(
        self, method: Method, context: GrpcContext, work: Callable[[Call], Awaitable[bytes | None]], raw: bytes = b""
    ) -> bytes | None:
        if method.reserved:
            return await self._carried_out(method, context, work, raw)
        in_flight = self._around.in_flight
        in_flight.begin(method.name)
        try:
            return await self._carried_out(method, context, work, raw)
        finally:
            in_flight.end(method.name)

    async def _carried_out(
        self, method: Method, context: GrpcContext, work: Callable[[Call], Awaitable[bytes | None]], raw: bytes
    ) -> bytes | None:
        refusal: SubagentsError
        try:
            return await work(self._admitted(method, context, raw))
        except SubagentsError as error:
            refusal = error
            if isinstance(error, AdmissionRefused | DeadlineTooShort):
                self._around.on_limit(error.metadata.get("limit", ""))
        except asyncio.CancelledError:
            if context.cancelled():
                raise
            # Nobody at the other end asked for it; without a status the client would hang to its deadline (grpc#29248).
            refusal = InternalFault("the sidecar stopped the call before it was answered; try again")
        except (GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  the outermost border: SystemExit of a plugin must not get past
            refusal = self._defect(method, error)
        await _end(context, rich_status(refusal))
        return None

    def _admitted(self, method: Method, context: GrpcContext, raw: bytes) -> Call:
        metadata = context.invocation_metadata()
        grant = admit(method.name, metadata, self._entrance)
        caller = caller_of(method.name, metadata, raw, self._entrance)
        left = time_left(context)
        least = self._around.rules.least_time
        if left is not None and left < least and not (method.reserved or method.urgent):
            raise AdmissionRefused(
                f"less than {least.total_seconds() * 1000:g} ms are left until the deadline; set one further away, "
                "or call less often",
                metadata={"limit": "time_left"},
                retry_after=timedelta(milliseconds=100),
            )
        return Call(context, metadata, left, grant) if caller is None else Call(context, metadata, left, grant, caller)

    def _defect(self, method: Method, error: BaseException) -> InternalFault:
        """Return what is said of a defect: nothing but where to look for it."""
        correlation_id = self._around.correlation_id()
        self._around.on_defect(method.name, correlation_id, error)
        return InternalFault(
            "the sidecar failed; its log says more under the correlation id",
            metadata={"correlation_id": correlation_id},
        )


def _parsed(method: Method, raw: bytes) -> Message:
    try:
        return method.parse(raw)
    except DecodeError:
        raise MalformedMessage("the bytes are not the message that this method takes") from None


async def _all_parsed(method: Method, raws: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for raw in raws:
        yield _parsed(method, raw)


async def _end(context: GrpcContext, status: RichStatus) -> None:
    """End the call with a status; gRPC wants the exception that `abort` raises to come out of the handler."""
    try:
        async with asyncio.timeout(ABORT_SECONDS):
            await context.abort(status.code, status.message, trailing_metadata=status.trailing_metadata)
    except grpc.aio.AbortError:
        raise
    except grpc.aio.BaseError:
        return  # the call is over already
    except TimeoutError:
        return  # gRPC has the status, and sends it if the client ever reads what comes before
