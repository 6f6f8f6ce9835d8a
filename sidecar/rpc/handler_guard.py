"""The guard around every handler, for RPCs and for operations of a lane.

It admits a call, counts refusals by a limit, and maps every exception of a handler to one error of the tree.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from google.protobuf.message import DecodeError, Message
from msgspec import Struct, field

from sidecar.core.errors import AdmissionRefused, DeadlineTooShort, InternalError, MalformedMessage, SubagentsError
from sidecar.rpc.authorisation import CallAdmission, Metadata, admit, caller_of
from sidecar.rpc.in_flight import InFlight, Turn
from sidecar.rpc.methods import Call, CallContext, Method, time_left

SENT_AT_KEY: Final = "x-subagents-sent-at"
"""Header of a call: when it was sent, in Unix milliseconds."""
LONGEST_BELIEVED: Final = 30.0
"""Seconds. A client that says more has another clock."""
WAIT_LIMIT: Final = "wait"
SHARE_OF_WORK: Final = 0.5
"""Of the longest wait: if calls of work that has begun wait longer, no other work is begun."""
WAIT_RETRY: Final = timedelta(seconds=1)

OnDefect = Callable[[str, str, BaseException], None]
"""Told of a defect: method, correlation id, what was raised. For the log; must not raise."""

OnLimit = Callable[[str], None]
"""Told of a call that a limit did not let through: which limit. For log and counter; must not raise."""

OnEnded = Callable[[float, str, str, str, str], None]
"""Told of a call that has ended: seconds, method without its first slash, gRPC's code, the error's reason (or nothing),
and what carried it (`rpc`, `lane`). For metrics; must not raise."""


class ServingRules(Struct, frozen=True):
    """The rules for admitting calls.

    Attributes:
        min_remaining_time: a call with less time than this is refused: its answer would arrive too late, and would
            take time from calls that can still be answered (research/reliability.md finding 7).
        write_timeout: a listener that has not taken a frame for this long is given up.
        longest_wait: a call that begins work and was sent longer ago is refused.
    """

    min_remaining_time: timedelta = timedelta(milliseconds=10)
    write_timeout: timedelta = timedelta(seconds=10)
    longest_wait: timedelta = timedelta(seconds=1)


class HandlerContext(Struct, frozen=True):
    """What the wrapper needs of the process.

    Attributes:
        in_flight: shared by all listeners; what a drain waits for.
        on_defect: where tracebacks go, and nowhere else.
        correlation_id: makes the id that caller and log share.
        on_limit: what hears of refusals for a limit.
        on_ended: what hears of each call that has ended.
        unix_time: what clients on this machine say when they sent a call by.
    """

    on_defect: OnDefect
    correlation_id: Callable[[], str]
    in_flight: InFlight = field(default_factory=InFlight)
    rules: ServingRules = field(default_factory=ServingRules)
    on_limit: OnLimit = lambda _: None
    on_ended: OnEnded = lambda *_: None
    unix_time: Callable[[], float] = time.time


class Guard:
    """Guards the methods of one listener.

    Attributes:
        too_late: the answer to calls that have waited too long. It is made once, as there are many when they are; it is
            never raised.
    """

    def __init__(self, entrance: CallAdmission, around: HandlerContext) -> None:
        self._entrance = entrance
        self._around = around
        self._behind_until = 0.0
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
            asyncio.CancelledError: the caller has gone away.
        """
        try:
            if turn is not None:
                await turn
            metadata = context.invocation_metadata()
            if self._waits_too_long(method, metadata):
                self.note(self.too_late)
                return self.too_late
            return await work(self._admitted(method, context, metadata, raw))
        except SubagentsError as error:
            self.note(error)
            return error
        except asyncio.CancelledError:
            if context.cancelled():
                raise
            # The client did not cancel the call; without a status it would wait until its deadline (grpc#29248).
            return InternalError("the sidecar stopped the call before it was answered; try again")
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  the outermost border: SystemExit of a plugin must not get past
            return self._defect(method, error)

    def note(self, error: SubagentsError) -> None:
        """Report a call that was not answered, if a limit is why."""
        if isinstance(error, AdmissionRefused | DeadlineTooShort):
            self._around.on_limit(error.metadata.get("limit", ""))

    def _admitted(self, method: Method, context: CallContext, metadata: Metadata, raw: bytes) -> Call:
        peers = self._entrance.peers
        peer = None if peers is None else peers.admit(context.auth_context())
        grant = admit(method.name, metadata, self._entrance)
        caller = caller_of(method.name, metadata, raw, self._entrance)
        left = time_left(context)
        least = self._around.rules.min_remaining_time
        if left is not None and left < least and not (method.reserved or method.urgent or method.ends_work):
            raise AdmissionRefused(
                f"less than {least.total_seconds() * 1000:g} ms are left until the deadline; set one further away, "
                "or call less often",
                metadata={"limit": "time_left"},
                retry_after=timedelta(milliseconds=100),
            )
        if caller is None:
            return Call(context, metadata, left, grant, guard=self, peer=peer)
        return Call(context, metadata, left, grant, caller, guard=self, peer=peer)

    def _waits_too_long(self, method: Method, metadata: Metadata) -> bool:
        """Return whether a call that begins work has waited too long, or those of work that has begun wait.

        Under a load that cannot be carried, calls wait until their deadlines: those that are served have no time left
        and those behind them wait in vain. The place of one that is refused at once is taken by one that is served in
        time. It is refused before anything else is looked at, as that is to cost little. Only clients on the same
        machine are believed, as they have the same clock.
        """
        if self._entrance.peers is not None or method.reserved:
            return False
        now, longest = self._around.unix_time(), self._around.rules.longest_wait.total_seconds()
        seconds = waited(metadata, now)
        if method.begins_work:
            return seconds > longest or now < self._behind_until <= now + longest
        if seconds > longest * SHARE_OF_WORK:
            # As long as this one has waited, those behind it take to be served.
            self._behind_until = max(self._behind_until, now + min(seconds, longest))
        return False

    def _defect(self, method: Method, error: BaseException) -> InternalError:
        """Return the error for a defect: only a hint where to find the details."""
        correlation_id = self._around.correlation_id()
        self._around.on_defect(method.name, correlation_id, error)
        return InternalError(
            "the sidecar failed; its log says more under the correlation id",
            metadata={"correlation_id": correlation_id},
        )


def waited(metadata: Metadata, now: float) -> float:
    """Return for how many seconds a call has waited; 0: its client does not say, or cannot be right."""
    for name, value in metadata:
        if name == SENT_AT_KEY:
            try:
                seconds = now - int(value) / 1000
            except (ValueError, OverflowError):
                return 0.0
            return seconds if 0 < seconds <= LONGEST_BELIEVED else 0.0
    return 0.0


def parsed(method: Method, raw: bytes) -> Message:
    """Return the request that bytes hold. Raises `MalformedMessage`."""
    try:
        return method.parse(raw)
    except DecodeError:
        raise MalformedMessage("the bytes are not the message that this method takes") from None
