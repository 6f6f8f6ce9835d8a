"""One operation of a session lane. It acts as the context of its call, as gRPC's does, and listens to its dispatch."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final, Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from grpc import StatusCode
from msgspec.structs import replace

from sidecar.core.dispatching.frames import Frame
from sidecar.core.errors import DeadlineExceeded, InternalError, SessionCreditExhausted, SubagentsError
from sidecar.core.session.outgoing import Credit
from sidecar.operations.ports import ListenerClosed, Task
from sidecar.operations.trace_context import TRACEPARENT, TRACESTATE
from sidecar.rpc.dispatch_servicer import LARGE, parts_of
from sidecar.rpc.errors import DETAILS_KEY, rich_status, status_of
from sidecar.rpc.methods import LONGEST_DEADLINE, Call, HandlerWrapper, Listener, Method
from sidecar.rpc.session.rules import SpanOf
from sidecar.rpc.translate.frames import Told, fill_frame
from subagents.dispatch.v1 import dispatch_pb2 as pb

Metadata = Iterable[tuple[str, str | bytes]]
CANCELLED: Final = pb.SessionStatus(code=StatusCode.CANCELLED.value[0], message="the client has abandoned it")
CREDIT_RETRY: Final = timedelta(0)
"""At once: the client itself decides when it grants credit."""
LONGEST_SECONDS: Final = LONGEST_DEADLINE.total_seconds()
OK: Final = StatusCode.OK.name
LEFT: Final = StatusCode.CANCELLED.name
"""The code of an operation whose lane broke before its end: the code of an RPC whose client has left."""
CARRIER: Final = "lane"
"""The transport of operations, in metrics; RPCs have another."""
NO_METHOD: Final = "_OTHER"
"""The method of an operation without a request: OpenTelemetry's name for an unknown method."""


class LeaveReason(Enum):
    """Why the client no longer waits for an operation."""

    EXPIRED = auto()
    """The operation's deadline has passed."""
    ABANDONED = auto()
    """The client has abandoned the operation."""
    BROKEN = auto()
    """The lane broke; the client may resume on another one."""


class Queue(Protocol):
    """Accepts the results of an operation; see `Lane`."""

    def add(self, operation: "Operation", response: pb.SessionResponse, *, last: bool = False) -> SubagentsError | None:
        """Queue a result; return the error that ends the operation if no credit is left or the result is too large."""

    def auth_context(self) -> Any:
        """Return what the TLS handshake of the lane's connection has proven."""


class Operation:
    """The call of one operation, and the listener of its dispatch.

    Attributes:
        correlation_id: the client's id of the operation.
        kind: the field of its request; empty if it has none.
        token: the surface token of the request, if it has one.
        dispatch_id: the dispatch that the request names, if any.
        arrived_at: the time of its arrival, by the lane's monotonic clock.
        seconds: its time limit; None: no limit.
        left: why the client no longer waits for the operation; None: the client waits.
        grace: the time after `left` in which the client may resume.
        started: whether its task has run at all. A task that is cancelled before its first step never runs.
        begun: whether its dispatch has started, or sends its frames here. From then on, later operations of the turn
            may begin.
        task: executes the operation.
    """

    def __init__(self, message: pb.SessionOperation, metadata: Metadata, queue: Queue, now: float) -> None:
        self.correlation_id: int = message.correlation_id
        self.kind: str = message.WhichOneof("request") or ""
        self.request: Any = getattr(message, self.kind) if self.kind else None
        # With a default, because some requests, e.g. of a bind, do not have this field.
        self.token: str = getattr(self.request, "surface_token", "")
        self.dispatch_id: str = getattr(self.request, "dispatch_id", "")
        self.left: LeaveReason | None = None
        self.grace = timedelta(0)
        self.started = self.begun = False
        self.task: Task | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.arrived_at = now
        self.seconds = _seconds_of(message.deadline) if message.HasField("deadline") else None
        self._ends_at = None if self.seconds is None else now + self.seconds
        self._metadata = _with_trace(metadata, message) if message.traceparent else metadata
        self._queue = queue
        self._resumed = self.kind == "resume_dispatch"
        self._refused: SubagentsError | None = None
        self._told: Told = {}
        self._last: pb.SessionResponse | None = None
        self._begun_future: asyncio.Future[None] | None = None

    # --- the context of its call

    def invocation_metadata(self) -> Metadata:
        """Return the metadata of the lane's call, with the operation's own trace context."""
        return self._metadata

    def auth_context(self) -> Any:
        """Return the authentication context of the lane's connection."""
        return self._queue.auth_context()

    def time_remaining(self) -> float | None:
        """Return the seconds until the operation's deadline; None: it has none."""
        return None if self._ends_at is None else self._ends_at - asyncio.get_running_loop().time()

    def cancelled(self) -> bool:
        """Return whether the client no longer waits for the operation."""
        return self.left is not None

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...], /) -> None:
        """Do nothing: an operation has no headers."""

    async def write(self, message: bytes, /) -> None:
        """Fail: frames go to `listener`, and an operation has no other stream."""
        # Only unary handlers and listeners of dispatches are reachable over a lane, so this is a defect.
        raise InternalError("an operation of a lane has no stream of its own")

    # --- the listener of its dispatch

    def listener(self) -> Listener:
        """Return the operation itself. From now on, later operations of the same turn may begin."""
        self.has_begun()
        return self

    async def send(self, frame: Frame) -> None:
        """Queue one frame. The frame with the result is kept for `end`, which sends it together with the status.

        Raises:
            ListenerClosed: the lane broke, or the client grants no credit.
        """
        if self.left is not None:
            raise ListenerClosed
        for part in parts_of(frame):
            response = self._response_with(part)
            if part.result is not None:
                # The result and the status are sent as one message. A large result is separated from its events so that
                # the message stays within the size limit.
                if response.ByteSize() > LARGE and part.events:
                    self._add(self._response_with(Frame(part.snapshot, part.events)))
                    response = self._response_with(Frame(None, (), part.result))
                self._last = response
                return
            self._add(response)

    def _response_with(self, part: Frame) -> pb.SessionResponse:
        response = pb.SessionResponse()
        result = response.results.add(correlation_id=self.correlation_id)
        fill_frame(result.resume_dispatch.frame if self._resumed else result.dispatch.frame, part, self._told)
        return response

    def _add(self, response: pb.SessionResponse) -> None:
        # Kept for `check`: `deliver_frames` treats `ListenerClosed` as the normal end of a listener and drops its
        # cause.
        self._refused = self._queue.add(self, response)
        if self._refused is not None:
            raise ListenerClosed

    def check(self) -> None:
        """Raise the error that prevented a frame, e.g. `SessionCreditExhausted`. The last frame leaves in `end`."""
        if self._refused is not None:
            raise self._refused

    # --- its begin and its end

    def work(self, method: Method) -> Callable[[Call], Awaitable[Any]]:
        """Return the function that runs the operation once its call is admitted."""
        # The guard creates the call, and knows no lanes; the handler finds its listener in `call.lane`.
        return lambda call: method.handle(self.request, replace(call, lane=self))

    def has_begun(self) -> None:
        """Release the later operations of the same turn."""
        self.begun = True
        if self._begun_future is not None and not self._begun_future.done():
            self._begun_future.set_result(None)

    async def until_begun(self) -> None:
        """Wait for `has_begun`."""
        if not self.begun:
            self._begun_future = self._begun_future or asyncio.get_running_loop().create_future()
            # Several operations may wait for this one. Without `shield`, cancelling one of them would cancel the future
            # for all.
            await asyncio.shield(self._begun_future)

    def leave(self, why: LeaveReason, grace: timedelta = timedelta(0)) -> None:
        """Note that the client no longer waits for the operation.

        After a broken lane, unary operations and operations that have not begun continue: the client repeats them.
        """
        # Only the first reason counts: an operation that has expired is not resumed when its lane breaks later.
        if self.left is not None or self.task is None:
            return
        self.left, self.grace = why, grace
        # A listener is cancelled when its lane breaks: the dispatch continues without it, and the client resumes it. A
        # unary operation must complete, because its effect may have happened and the client repeats it.
        listens = self.begun and self._last is None
        # A task that has not run yet is not cancelled: it would never reach the code that ends its operation. It checks
        # `left` at its first step instead.
        if self.started and (listens or why is not LeaveReason.BROKEN):
            self.task.cancel()

    def end(self, answer: Any) -> tuple[pb.SessionResponse | None, SubagentsError | None]:
        """Return the last result, or the error instead of one. Both are None if the client does not wait.

        Args:
            answer: the handler's answer, an error, or None: the frame that `send` has kept is the last result.
        """
        # First: an answer that came too late, or an error that the cancellation caused, must not replace this error.
        if self.left is LeaveReason.EXPIRED:
            return None, DeadlineExceeded("the operation's deadline has passed")
        if isinstance(answer, SubagentsError) or self.left is not None:
            return None, answer if isinstance(answer, SubagentsError) else None
        last = self._last
        if isinstance(answer, Message):
            last = pb.SessionResponse()
            # The field of the result has the name of the field of the request.
            last.results.add(correlation_id=self.correlation_id, **{self.kind: answer})
        if last is not None:
            last.results[0].status.SetInParent()  # result and status are sent as one message
        return last, None

    def measured(self, now: float, name: str, code: str, reason: str) -> tuple[float, str, str, str, str]:
        """Return the arguments for `OnEnded`."""
        return now - self.arrived_at, name[1:] or NO_METHOD, code, reason, CARRIER


def ended(correlation_id: int, refused: SubagentsError | None) -> tuple[pb.SessionResponse, str]:
    """Return the last result of an operation without an answer, and its code. No error means that it was abandoned."""
    response = pb.SessionResponse()
    result = response.results.add(correlation_id=correlation_id)
    if refused is None:
        result.status.CopyFrom(CANCELLED)
        return response, StatusCode.CANCELLED.name
    status = rich_status(refused)
    result.status.code = status.code.value[0]
    result.status.message = status.message
    result.status.reason = refused.reason
    result.status.details = dict(status.trailing_metadata)[DETAILS_KEY]
    return response, status.code.name


async def in_span(operation: Operation, method: Method, guard: HandlerWrapper, span: SpanOf) -> Any:
    """Run an operation through the guard within its own span; return the guard's result."""
    # The status is set here and not by an exception: the guard returns errors.
    with span(method.name, operation.invocation_metadata()) as end_with:
        answer = await guard(method, operation, operation.work(method))
        if isinstance(answer, SubagentsError):
            end_with(status_of(answer), answer.message)
    return answer


def exhausted(credit: Credit) -> SessionCreditExhausted:
    """Return the error of an operation whose client grants no credit; the client may repeat the request."""
    return SessionCreditExhausted(
        f"more is ready than may wait for credit of the {credit}; grant more, and ask for the rest again",
        metadata={"credit": credit},
        retry_after=CREDIT_RETRY,
    )


def _seconds_of(deadline: Duration) -> float | None:
    seconds = deadline.seconds + deadline.nanos / 1e9
    # As `time_left` does for RPCs: a very distant deadline counts as none, and one that has passed as 0.
    return None if seconds >= LONGEST_SECONDS else max(0.0, seconds)


def _with_trace(metadata: Metadata, message: pb.SessionOperation) -> Metadata:
    return (*metadata, (TRACEPARENT, message.traceparent), (TRACESTATE, message.tracestate))
