"""Guards every handler, for RPCs and for operations of a session lane (a stream that carries many operations).

The guard admits a call, counts refusals because of a limit, and converts every exception of a handler to an error of
the project's exception tree.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from google.protobuf.message import DecodeError, Message
from msgspec import Struct, field

from sidecar.core.errors import AdmissionRefused, DeadlineTooShort, InternalError, MalformedMessage, SubagentsError
from sidecar.core.waiting_calls import WaitingCalls
from sidecar.rpc.authorisation import CallAdmission, Metadata, admit, caller_of
from sidecar.rpc.in_flight import InFlight, Turn
from sidecar.rpc.methods import Call, CallContext, Method, time_left

SENT_AT_KEY: Final = "x-subagents-sent-at"
"""Header of a call: when it was sent, in milliseconds of the machine's monotonic clock, which is never set."""
LONGEST_BELIEVED: Final = 30.0
"""The longest waiting time in seconds that is believed. A client that states more has another clock."""
WAIT_LIMIT: Final = "wait"
"""The name of the limit of the waiting time, in metrics and errors."""
WAIT_RETRY: Final = timedelta(seconds=1)

OnDefect = Callable[[str, str, BaseException], None]
"""Logs a defect: method, correlation id, exception. Must not raise."""

OnLimit = Callable[[str], None]
"""Logs and counts a refused call; receives the name of the limit. Must not raise."""

OnEnded = Callable[[float, str, str, str, str], None]
"""Measures an ended call: seconds, method (without a leading slash), gRPC's code, reason of the error or "", transport.

The transport is `rpc` or `lane`. Must not raise.
"""


class ServingRules(Struct, frozen=True):
    """The rules for admitting calls.

    Attributes:
        min_remaining_time: a call with less time than this is refused: its answer would arrive too late, and would take
            time from calls that can still be answered (research/reliability.md finding 7).
        write_timeout: a listener that has not accepted a frame for this long counts as gone.
        longest_wait: a call that begins work is refused if it has waited longer in a standing queue; see
            `core/waiting_calls.py`.
    """

    min_remaining_time: timedelta = timedelta(milliseconds=10)
    write_timeout: timedelta = timedelta(seconds=10)
    longest_wait: timedelta = timedelta(seconds=1)


class HandlerContext(Struct, frozen=True):
    """The dependencies of all guards on the process.

    Attributes:
        in_flight: shared by all listeners; a drain waits for these calls.
        on_defect: the only receiver of tracebacks.
        correlation_id: creates the id that caller and log share.
        on_limit: receives refusals by a limit.
        on_ended: receives each ended call.
        sent_clock: the clock by which clients on this machine state when they sent a call: monotonic, as the wall clock
            may be set while a call waits. All processes of a machine have the same.
    """

    on_defect: OnDefect
    correlation_id: Callable[[], str]
    in_flight: InFlight = field(default_factory=InFlight)
    rules: ServingRules = field(default_factory=ServingRules)
    on_limit: OnLimit = lambda _: None
    on_ended: OnEnded = lambda *_: None
    sent_clock: Callable[[], float] = time.monotonic


class Guard:
    """Guards the methods of one listener.

    Attributes:
        too_late: the error for calls that have waited too long. It is created once, because under overload there are
            many such calls; it is returned and never raised.
    """

    def __init__(self, entrance: CallAdmission, around: HandlerContext) -> None:
        self._entrance = entrance
        self._around = around
        # Only clients on the same machine are believed: monotonic clocks of different machines cannot be compared.
        longest = around.rules.longest_wait.total_seconds()
        self._waiting = None if entrance.peers is not None else WaitingCalls(longest)
        self.too_late: Final = AdmissionRefused(
            "the sidecar gets more than it can do, so calls wait too long; add replicas, or call less often",
            metadata={"limit": WAIT_LIMIT},
            retry_after=WAIT_RETRY,
        )
        self.on_ended = around.on_ended

    @property
    def in_flight(self) -> InFlight:
        """Where calls are counted."""
        return self._around.in_flight

    async def __call__(
        self,
        method: Method,
        context: CallContext,
        work: Callable[[Call], Awaitable[bytes | None]],
        raw: bytes = b"",
        turn: Turn | None = None,
    ) -> bytes | SubagentsError | None:
        """Admit a call when its batch starts, and run its handler; return the result, or the error.

        Raises:
            asyncio.CancelledError: the caller has left.
        """
        try:
            if turn is not None:
                # Before the deadline is read, so that the time of this wait counts as spent.
                await turn
            metadata = context.invocation_metadata()
            if self._waiting is not None and not method.reserved:  # first: a refusal under overload must cost little
                now = self._around.sent_clock()
                if self._waiting.refuses(method.name, waited(metadata, now), now, begins_work=method.begins_work):
                    self.note(self.too_late)
                    return self.too_late
            return await work(self._admit(method, context, metadata, raw))
        except SubagentsError as error:
            self.note(error)
            return error
        except asyncio.CancelledError:
            if context.cancelled():
                raise
            # The client did not cancel the call; without a status it would wait until its deadline (grpc#29248).
            return InternalError("the sidecar stopped the call before it was answered; try again")
        # Python closes the coroutine: it must not await anything more, nor return a value.
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  outermost boundary: SystemExit in a plugin must not pass it
            return self._defect(method, error)

    def note(self, error: SubagentsError) -> None:
        """Report a refused call, if a limit is the reason."""
        if isinstance(error, AdmissionRefused | DeadlineTooShort):
            self._around.on_limit(error.metadata.get("limit", ""))

    def _admit(self, method: Method, context: CallContext, metadata: Metadata, raw: bytes) -> Call:
        """Check the caller and the time that is left; return the call. Raises a `SubagentsError` that refuses it."""
        # The certificate first: its identity decides whether anything that the client sends is looked at.
        peers = self._entrance.peers
        peer = None if peers is None else peers.admit(context.auth_context())
        # The role token last: to verify its signature costs most.
        grant = admit(method.name, metadata, self._entrance)
        caller = caller_of(method.name, metadata, raw, self._entrance)
        left = time_left(context)
        least = self._around.rules.min_remaining_time
        # After the caller is admitted: to a caller without rights, a longer deadline would be wrong advice.
        if left is not None and left < least and not (method.reserved or method.urgent or method.ends_work):
            raise AdmissionRefused(
                f"less than {least.total_seconds() * 1000:g} ms are left until the deadline; set one further away, "
                "or call less often",
                metadata={"limit": "time_left"},
                retry_after=timedelta(milliseconds=100),
            )
        if caller is None:
            # Without `caller`, its default applies: a caller without a name.
            return Call(context, metadata, left, grant, guard=self, peer=peer)
        return Call(context, metadata, left, grant, caller, guard=self, peer=peer)

    def _defect(self, method: Method, error: BaseException) -> InternalError:
        """Return the error for a defect, with only a hint where to find the details: they may contain user data."""
        correlation_id = self._around.correlation_id()
        self._around.on_defect(method.name, correlation_id, error)
        return InternalError(
            "the sidecar failed; its log says more under the correlation id",
            metadata={"correlation_id": correlation_id},
        )


def waited(metadata: Metadata, now: float) -> float | None:
    """Return for how many seconds a call has waited; None: its client does not say, or cannot be right."""
    for name, value in metadata:
        if name == SENT_AT_KEY:
            try:
                # The value is the client's, so any text and any size of number may come.
                seconds = now - int(value) / 1000
            except (ValueError, OverflowError):
                return None
            # A negative time is that of another clock, too: no call is sent after it arrives.
            return seconds if 0 <= seconds <= LONGEST_BELIEVED else None
    return None


def parsed(method: Method, raw: bytes) -> Message:
    """Return the request of some bytes. Raises `MalformedMessage`."""
    try:
        return method.parse(raw)
    except DecodeError:
        # `from None`: the parser's error may quote bytes of the request, i.e. data of a user.
        raise MalformedMessage("the bytes are not the message that this method takes") from None
