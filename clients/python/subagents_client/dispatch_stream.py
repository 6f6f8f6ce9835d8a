"""`DispatchStream`: one dispatch from its first frame to its last, over as many connections as necessary.

`Dispatch` is sent again only after the sidecar itself answered that it started nothing. If a connection broke without
an answer, sub-agents may be running; from then on only `ResumeDispatch` is sent. If the sidecar then does not know the
dispatch (it was restarted), or cannot be reached, the outcomes are synthetic. A session lane names the process of the
sidecar: if the same process does not know the dispatch, the request never arrived, and is sent again.
"""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from types import TracebackType
from typing import Self

import grpc

from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import translate
from subagents_client.errors import error_and_origin, unreachable
from subagents_client.events import CallStateChanged, DispatchEvent, Gap, Snapshot
from subagents_client.outcomes import CallOutcome, DispatchResult, ToolCall
from subagents_client.retrying import backoff_before, caller_can_mend, is_retryable
from subagents_client.runtime import Deadline
from subagents_client.session.operation import LaneOperation
from subagents_client.surface import Surface
from subagents_client.synthetic_outcomes import synthesised_result
from subagents_client.wire import Frames, Wire
from subagents_errors import (
    DeadlineExceeded,
    DependencyUnavailable,
    InternalError,
    InvalidRequest,
    SubagentsError,
    UnknownDispatch,
)


class Stage(Enum):
    """The state of a dispatch as the client knows it."""

    UNSENT = auto()
    """Nothing was sent, or the sidecar answered that it started nothing."""
    SENT = auto()
    """The request was sent; there is no answer yet."""
    UNCERTAIN = auto()
    """The connection broke without an answer: the dispatch may be running."""
    RESUMING = auto()
    """The caller asked to resume; there is no answer yet."""
    ACCEPTED = auto()
    """A frame has arrived: the dispatch is running, or settled."""


@dataclass(frozen=True, slots=True)
class DispatchCall:
    """The dispatch that a stream starts or resumes.

    Attributes:
        dispatch_id: the idempotency key.
        surface_token: the surface token of the turn.
        surface: the surface of the turn.
        calls: in emission order; empty if they are unknown, which makes synthetic outcomes impossible.
        first_index: position of the first call among all calls of the turn, from 0.
        request: the request that starts the dispatch; None to resume a dispatch that was started before.
        after_sequence: number of the newest event that the caller has seen; 0: none.
    """

    dispatch_id: str
    surface_token: str
    surface: Surface
    calls: Sequence[ToolCall]
    first_index: int
    request: dispatch_pb2.DispatchRequest | None
    after_sequence: int = 0


@dataclass(frozen=True, slots=True)
class RunningDispatch:
    """A dispatch whose outcomes are not yet known. User interfaces list and cancel such dispatches.

    Attributes:
        dispatch_id: argument of `BoundTurn.cancel_dispatch`, `cancel_call` and `resume`.
        calls: the calls of the dispatch, in emission order.
    """

    dispatch_id: str
    calls: Sequence[ToolCall]


class DispatchStream:
    """One dispatch: an async context manager, and an async iterator over the events of the dispatch.

    Use it in `async with`, which releases the connection; `on_disconnect` then decides whether running calls continue.
    The stream is read while you iterate over events or `outcomes`, or await `result`; nothing runs in the background.

    Attributes:
        dispatch_id: argument of `BoundTurn.resume`.
        calls: in emission order; empty if `resume` was called without calls for a dispatch of another process.
        snapshot: the states of the calls when the stream began; None before the first event or result.
    """

    def __init__(self, wire: Wire, assignment: DispatchCall, timeout: timedelta) -> None:
        self._wire = wire
        self._assignment = assignment
        # End before the caller's own timeout, which would prevent a result. A very short timeout loses only a tenth.
        margin = min(wire.timeouts.settle_margin, timeout / 10)
        self._deadline = Deadline(timeout - margin, wire.runtime.now)
        self._stage = Stage.UNSENT if assignment.request else Stage.RESUMING
        self._sequence = assignment.after_sequence
        self._pending: deque[DispatchEvent] = deque()
        self._outcomes: dict[str, CallOutcome] = {}
        self._frames: Frames | None = None
        self._sent_to = ""  # id of the sidecar process that received the request; empty if unknown
        self._lost: Deadline | None = None  # when waiting for a connection ends; None while there is a connection
        self._failures = 0
        self._end: DispatchResult | SubagentsError | None = None
        self.dispatch_id = assignment.dispatch_id
        self.calls = assignment.calls
        self.snapshot: Snapshot | None = None
        self._left = False  # whether the caller has left the stream, which cancels its dispatch

    @property
    def sequence(self) -> int:
        """Number of the newest event read from the connection, or else `after_sequence` (0 by default)."""
        return self._sequence

    @property
    def known_result(self) -> DispatchResult | None:
        """The result, or None if it is not yet known. Does not wait."""
        return self._end if isinstance(self._end, DispatchResult) else None

    @property
    def over(self) -> bool:
        """Whether the dispatch has ended: it has a result, was refused, or was cancelled when the caller left."""
        return self._end is not None or self._left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        request = self._assignment.request
        self._left = request is not None and request.on_disconnect == dispatch_pb2.ON_DISCONNECT_CANCEL
        self._close_frames()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DispatchEvent:
        """Return the next event; the iteration ends when the dispatch ends.

        Raises:
            SubagentsError: the dispatch was refused for a reason that the caller can correct.
        """
        while not self._pending:
            if isinstance(self._end, DispatchResult):
                raise StopAsyncIteration
            await self._advance()
        return self._pending.popleft()

    async def outcomes(self) -> AsyncIterator[CallOutcome]:
        """Yield each call's outcome once, as soon as it is known; outcomes are final. Drops all other events.

        Outcomes of calls that never ran, or whose events were missed, come last. Raises the errors of `result`.
        """
        yielded: set[str] = set()
        result = self.known_result
        while True:
            self._pending.clear()
            for outcome in [*self._outcomes.values(), *(result.outcomes if result else ())]:
                if outcome.call_id not in yielded:
                    yielded.add(outcome.call_id)
                    yield outcome
            if result is not None:
                return
            await self._advance()
            result = self.known_result

    async def result(self) -> DispatchResult:
        """Wait for the end and return one outcome per call, in emission order. Drops unread events.

        Raises:
            SubagentsError: the dispatch was refused for a reason that the caller can correct.
        """
        while not isinstance(self._end, DispatchResult):
            await self._advance()
            self._pending.clear()
        return self._end

    async def _advance(self) -> None:
        """Read one message, connecting first if necessary; set `_end` when the dispatch has ended."""
        if isinstance(self._end, SubagentsError):
            raise self._end
        try:
            frames = self._frames or await self._open()
            if frames is None:
                return
            message = await frames.read()
        except InvalidRequest as refused:  # refused by the client library, before anything was sent
            self._give_up(refused)
            return
        except grpc.aio.AioRpcError as failure:
            instance = _instance_of(self._frames)
            self._close_frames()
            await self._broken(*error_and_origin(failure, "Dispatch", self._wire.target), instance)
            return
        if isinstance(message, dispatch_pb2.DispatchResponse | dispatch_pb2.ResumeDispatchResponse):
            self._take(message.frame)
        else:
            self._close_frames()
            await self._broken(InternalError("the stream ended before its result"), answered=False)

    async def _open(self) -> Frames | None:
        limit = self._lost or Deadline(self._wire.timeouts.unreachable_after, self._wire.runtime.now)
        if not await self._wire.connected(min(limit.left(), self._deadline.left())):
            self._give_up(DependencyUnavailable(unreachable("Dispatch", self._wire.target)))
            return None
        if self._stage is Stage.UNCERTAIN and self._sent_to:
            await self._wire.lanes.ready()  # only a lane names the sidecar's process, which may have been restarted
        left = self._deadline.left()
        if left <= 0:
            self._give_up(DeadlineExceeded("the deadline has passed; raise the timeout, or ClientTimeouts.dispatch"))
            return None
        assignment = self._assignment
        if self._stage is Stage.UNSENT and assignment.request is not None:
            self._frames = self._wire.dispatch(assignment.request, left)
            self._stage = Stage.SENT
            self._sent_to = _instance_of(self._frames)
        else:
            request = dispatch_pb2.ResumeDispatchRequest(
                surface_token=assignment.surface_token,
                dispatch_id=assignment.dispatch_id,
                after_sequence=self._sequence,
            )
            self._frames = self._wire.resume(request, left)
        return self._frames

    def _take(self, frame: dispatch_pb2.DispatchFrame) -> None:
        progress = (self._stage, self._sequence)
        self._stage = Stage.ACCEPTED
        self._lost = None
        if self.snapshot is None and frame.HasField("snapshot"):
            self.snapshot = translate.snapshot(frame.snapshot)
        for message in frame.events:
            event = translate.event(message)
            newest = max(message.sequence, event.to_sequence) if isinstance(event, Gap) else message.sequence
            if newest <= self._sequence:  # already read: a resumed stream may repeat events
                continue
            self._sequence = newest
            if event is not None:
                self._pending.append(event)
            if isinstance(event, CallStateChanged) and event.outcome is not None:
                self._outcomes[event.call_id] = event.outcome
        if (self._stage, self._sequence) != progress:
            self._failures = 0  # only progress: the pauses must keep growing if streams break without a new event
        if frame.HasField("result"):
            self._end = translate.result(self.dispatch_id, frame.result, self._outcomes)
            self._close_frames()

    async def _broken(self, error: SubagentsError, answered: bool, instance: str = "") -> None:
        """Wait before the next connection, or end the dispatch if another attempt is pointless or too late."""
        never_arrived = self._stage is Stage.UNCERTAIN and isinstance(error, UnknownDispatch)
        if never_arrived and instance and instance == self._sent_to:
            self._stage = Stage.UNSENT  # the same process would know the dispatch if it had arrived
            return
        if self._stage is Stage.SENT:
            self._stage = Stage.UNSENT if answered else Stage.UNCERTAIN
        self._failures += 1
        runtime, timeouts = self._wire.runtime, self._wire.timeouts
        self._lost = self._lost or Deadline(timeouts.unreachable_after, runtime.now)
        pause = backoff_before(self._failures + 1, error, timeouts, runtime.chance)
        again = is_retryable(error) or (not answered and isinstance(error, InternalError))
        refused_often = answered and self._failures >= timeouts.most_attempts
        if not again or refused_often or pause >= min(self._lost.left(), self._deadline.left()):
            self._give_up(error)
        else:
            await runtime.sleep(pause)

    def _give_up(self, error: SubagentsError) -> None:
        """End the dispatch: raise the error if the caller can correct it, else make synthetic outcomes."""
        assignment = self._assignment
        may_run = self._stage in {Stage.UNCERTAIN, Stage.ACCEPTED}
        if not assignment.calls or (not may_run and caller_can_mend(error)):
            self._end = error
            raise error
        self._end = synthesised_result(
            assignment.dispatch_id, assignment.calls, assignment.surface, error, assignment.first_index, self._outcomes
        )

    def _close_frames(self) -> None:
        if self._frames is not None:
            self._frames.cancel()
            self._frames = None


def _instance_of(frames: Frames | None) -> str:
    """Return the id of the sidecar process that answers; empty without a lane, since only lanes name the process."""
    return frames.instance_id if isinstance(frames, LaneOperation) else ""
