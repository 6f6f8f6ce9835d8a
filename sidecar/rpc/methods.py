"""Describes the methods of a servicer (one `Method` for each RPC) and the call that a handler receives.

The descriptions do not depend on gRPC's server, so the same handlers serve RPCs and operations of a session lane.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from enum import StrEnum, unique
from typing import Any, Final, Protocol

import msgspec
from google.protobuf.message import Message

from sidecar.core.dispatching.frames import Frame
from sidecar.core.errors import SubagentsError
from sidecar.core.operators.role_tokens import Caller
from sidecar.rpc.authorisation import AdmittedPeer
from sidecar.rpc.in_flight import InFlight

SENT_UNREAD: Final = 32 * 1024
"""Bytes that gRPC can send even if the client reads nothing: half of HTTP/2's initial window of a stream."""


class CallContext(Protocol):
    """The call as a handler sees it: an RPC, or an operation of a lane."""

    def invocation_metadata(self) -> Any:
        """Return the client's metadata, repeated keys included."""

    def auth_context(self) -> Any:
        """Return what the TLS handshake of the connection has proven; called only with TLS."""

    def time_remaining(self) -> float | None:
        """Return seconds until the client's deadline; None if it set none."""

    def cancelled(self) -> bool:
        """Return whether the client has left or its deadline has passed."""

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...], /) -> None:
        """Send the headers now; otherwise they are sent with the first message."""

    async def write(self, message: bytes, /) -> None:
        """Send one message; returns when gRPC has accepted it."""


class GrpcContext(CallContext, Protocol):
    """The part of `grpc.aio.ServicerContext` that the sidecar uses."""

    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> Any:
        """End the call with a status, by raising an exception."""

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` once the call has ended and its status was sent."""


LONGEST_DEADLINE: Final = timedelta(days=1)
"""A call with a later deadline is treated like one without a deadline."""


class Call(msgspec.Struct, frozen=True):
    """One admitted call.

    Attributes:
        metadata: the client's metadata; read it once, because gRPC builds it again at each access.
        time_left: until the client's deadline; None without a deadline, or with one that is unreasonably distant.
        grant: the key of a running attempt, as sent and not verified yet. Empty for methods that need none.
        caller: the subject of a verified role token; empty on listeners that require no token.
        guard: the guard of the call, with which a lane runs its operations.
        lane: receives the frames of the call's dispatch, if the call came over a lane.
        peer: the caller over TLS, or at the socket of a group of hosts; None on other Unix sockets.
    """

    context: CallContext
    metadata: Iterable[tuple[str, str | bytes]]
    time_left: timedelta | None
    grant: str
    caller: Caller = Caller("", None)
    guard: "HandlerWrapper | None" = None
    lane: "LaneListeners | None" = None
    peer: AdmittedPeer | None = None

    @property
    def subject(self) -> str:
        """The name of the caller."""
        return self.caller.sub

    async def write(self, message: Message) -> None:
        """Send one message of a stream; waits while the client is slow."""
        await self.context.write(message.SerializeToString())


class Listener(Protocol):
    """Accepts the frames of a dispatch."""

    grace: timedelta
    """How long the listener may take to return before it counts as gone."""

    async def send(self, frame: Frame) -> None:
        """Deliver one frame. Raises `ListenerClosed`."""

    def check(self) -> bytes | None:
        """Return the last message if it must still be sent.

        Raises if the listener was abandoned or lost: otherwise the call would end as if it were complete.
        """


class LaneListeners(Protocol):
    """One operation of a lane, as a handler sees it."""

    def listener(self) -> Listener:
        """Return the object that accepts the frames of its dispatch."""


class HandlerWrapper(Protocol):
    """Admits a call and runs it; see `rpc/handler_guard.py`."""

    @property
    def in_flight(self) -> InFlight:
        """The counter of calls."""

    @property
    def on_ended(self) -> Callable[[float, str, str, str, str], None]:
        """The function that measures ended calls."""

    def note(self, error: SubagentsError) -> None:
        """Report a refused call, if a limit is the reason."""

    async def __call__(
        self, method: "Method", context: CallContext, work: Callable[[Call], Awaitable[bytes | None]], raw: bytes = b""
    ) -> bytes | SubagentsError | None:
        """Return the result of the work, or the error."""


@unique
class MethodShape(StrEnum):
    """Whether requests and responses are streams."""

    ONE_TO_ONE = "one_to_one"
    ONE_TO_MANY = "one_to_many"
    WITH_LAST = "with_last"
    """One to many; the handler returns the last message, which then travels with the status."""
    MANY_TO_MANY = "many_to_many"


Handle = Callable[[Any, Call], Awaitable[Any]]
"""Takes the request (for MANY_TO_MANY an `AsyncIterator`); returns the response, or writes it to the call.

For WITH_LAST it returns the bytes of the last message.
"""


class Method(msgspec.Struct, frozen=True):
    """One RPC.

    Attributes:
        name: `/package.Service/Method`.
        parse: creates the request from its bytes; raises `DecodeError`.
        reserved: served under any load, and a drain does not wait for it: health, reflection, long reads.
        batched: starts together with other calls that arrive at the same time; see `rpc/in_flight.py`.
        urgent: served however little time is left, and a drain waits for it: operators' requests.
        ends_work: served beyond the limit of concurrent calls and however little time is left, because it makes room
            for other calls.
        begins_work: refused once it has waited too long, so that work that has begun is completed in time.
        own_queue: waits for its start in a separate queue; see `rpc/listeners.py`.
    """

    name: str
    shape: MethodShape
    parse: Callable[[bytes], Message]
    handle: Handle
    reserved: bool = False
    urgent: bool = False
    batched: bool = False
    ends_work: bool = False
    begins_work: bool = False
    own_queue: bool = False


def time_left(context: CallContext) -> timedelta | None:
    """Return the time until the client's deadline, bounded."""
    seconds = context.time_remaining()
    # A client library may send a very distant deadline instead of none. It could exceed what a `timedelta` can hold.
    if seconds is None or seconds >= LONGEST_DEADLINE.total_seconds():
        return None
    # gRPC may report a negative time for a call whose deadline has just passed.
    return timedelta(seconds=max(0.0, seconds))
