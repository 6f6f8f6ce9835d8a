"""One dispatch, from the first frame to the last, over as many connections as it takes.

What may be sent when: `Dispatch` goes out over a standing connection, and again only after the sidecar itself said
that it started nothing. Once the connection broke with no answer, sub-agents may be running, and a sub-agent may have
side effects; from then on only `ResumeDispatch` is used. If the sidecar knows nothing of the dispatch then (it
was restarted), or cannot be reached, the outcomes are synthesised. Over a session lane the sidecar says which run of
it answers: where that is the same one, a dispatch that it does not know never arrived, and is sent again.
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
    """How far a dispatch has come, as seen from here."""

    UNSENT = auto()
    """Nothing was sent, or the sidecar said that it started nothing."""
    SENT = auto()
    """The request is out; no word yet."""
    UNCERTAIN = auto()
    """The connection broke with no word: it may be running."""
    RESUMING = auto()
    """The caller asked to resume; no word yet."""
    ACCEPTED = auto()
    """A frame has come: it is running, or settled."""


@dataclass(frozen=True, slots=True)
class DispatchCall:
    """What a stream is to bring the outcomes of.

    Attributes:
        dispatch_id: the idempotency key.
        surface_token: of the turn.
        surface: of the turn.
        calls: in emission order; empty if they are not known, then nothing can be synthesised.
        first_index: place of the first call over all dispatches of the turn.
        request: what starts it; None: it was started before.
        after_sequence: newest event that the caller has seen.
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
    """A dispatch whose outcomes are still to come; for a user interface that lists or cancels it.

    Attributes:
        dispatch_id: for `BoundTurn.cancel_dispatch`, `cancel_call` and `resume`.
        calls: in emission order.
    """

    dispatch_id: str
    calls: Sequence[ToolCall]


class DispatchStream:
    """A running dispatch: an async context manager, an async iterator of its events, and its result.

    Use it with `async with`, so that the connection is released; `on_disconnect` then decides about running calls.
    Frames are read while you iterate over events or `outcomes`, or await `result`; nothing runs in the background.

    Attributes:
        dispatch_id: for `BoundTurn.resume`.
        calls: in emission order; empty if a resumed dispatch was not given any.
        snapshot: where the calls stood when the stream began; None before the first event or result.
    """

    def __init__(self, wire: Wire, assignment: DispatchCall, timeout: timedelta) -> None:
        self._wire = wire
        self._assignment = assignment
        margin = min(wire.timeouts.settle_margin, timeout / 10)
        self._deadline = Deadline(timeout - margin, wire.runtime.now)
        self._stage = Stage.UNSENT if assignment.request else Stage.RESUMING
        self._sequence = assignment.after_sequence
        self._pending: deque[DispatchEvent] = deque()
        self._told: dict[str, CallOutcome] = {}
        self._frames: Frames | None = None
        self._sent_to = ""
        self._lost: Deadline | None = None
        self._failures = 0
        self._end: DispatchResult | SubagentsError | None = None
        self.dispatch_id = assignment.dispatch_id
        self.calls = assignment.calls
        self.snapshot: Snapshot | None = None
        self._left = False

    @property
    def sequence(self) -> int:
        """Newest event that was taken from the connection; 0 if there was none."""
        return self._sequence

    @property
    def known_result(self) -> DispatchResult | None:
        """The result if it has come; does not wait."""
        return self._end if isinstance(self._end, DispatchResult) else None

    @property
    def over(self) -> bool:
        """Whether nothing more will come: the dispatch has a result, was refused, or was left and thereby cancelled."""
        return self._end is not None or self._left

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        request = self._assignment.request
        self._left = request is not None and request.on_disconnect == dispatch_pb2.ON_DISCONNECT_CANCEL
        self._let_go()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DispatchEvent:
        """Return the next event; ends when the dispatch has.

        Raises:
            SubagentsError: the dispatch was refused, and the caller can do something about it.
        """
        while not self._pending:
            if isinstance(self._end, DispatchResult):
                raise StopAsyncIteration
            await self._advance()
        return self._pending.popleft()

    async def outcomes(self) -> AsyncIterator[CallOutcome]:
        """Yield the outcome of each call as soon as it is there, each call once. Other events are thrown away.

        What was yielded is final. Calls that never began, or whose events were missed, come last. Raises as `result`.
        """
        yielded: set[str] = set()
        result = self.known_result
        while True:
            self._pending.clear()
            for outcome in [*self._told.values(), *(result.outcomes if result else ())]:
                if outcome.call_id not in yielded:
                    yielded.add(outcome.call_id)
                    yield outcome
            if result is not None:
                return
            await self._advance()
            result = self.known_result

    async def result(self) -> DispatchResult:
        """Wait for the end and return one outcome per call, in emission order. Unread events are thrown away.

        Raises:
            SubagentsError: the dispatch was refused, and the caller can do something about it.
        """
        while not isinstance(self._end, DispatchResult):
            await self._advance()
            self._pending.clear()
        return self._end

    async def _advance(self) -> None:
        if isinstance(self._end, SubagentsError):
            raise self._end
        try:
            frames = self._frames or await self._open()
            if frames is None:
                return
            message = await frames.read()
        except InvalidRequest as refused:  # here, before it was sent
            self._give_up(refused)
            return
        except grpc.aio.AioRpcError as failure:
            instance = _instance_of(self._frames)
            self._let_go()
            await self._broken(*error_and_origin(failure, "Dispatch", self._wire.target), instance)
            return
        if isinstance(message, dispatch_pb2.DispatchResponse | dispatch_pb2.ResumeDispatchResponse):
            self._take(message.frame)
        else:
            self._let_go()
            await self._broken(InternalError("the stream ended before its result"), answered=False)

    async def _open(self) -> Frames | None:
        limit = self._lost or Deadline(self._wire.timeouts.unreachable_after, self._wire.runtime.now)
        if not await self._wire.connected(min(limit.left(), self._deadline.left())):
            self._give_up(DependencyUnavailable(unreachable("Dispatch", self._wire.target)))
            return None
        if self._stage is Stage.UNCERTAIN and self._sent_to:
            await self._wire.lanes.ready()  # only a lane says whether it is the same run of the sidecar
        left = self._deadline.left()
        if left <= 0:
            self._give_up(DeadlineExceeded("the deadline has passed: give it more time, or raise Limits.dispatch"))
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
        before = (self._stage, self._sequence)
        self._stage = Stage.ACCEPTED
        self._lost = None
        if self.snapshot is None and frame.HasField("snapshot"):
            self.snapshot = translate.snapshot(frame.snapshot)
        for message in frame.events:
            event = translate.event(message)
            newest = max(message.sequence, event.to_sequence) if isinstance(event, Gap) else message.sequence
            if newest <= self._sequence:
                continue
            self._sequence = newest
            if event is not None:
                self._pending.append(event)
            if isinstance(event, CallStateChanged) and event.outcome is not None:
                self._told[event.call_id] = event.outcome
        if (self._stage, self._sequence) != before:
            self._failures = 0  # a stream that breaks again and again without anything new is asked ever more slowly
        if frame.HasField("result"):
            self._end = translate.result(self.dispatch_id, frame.result, self._told)
            self._let_go()

    async def _broken(self, error: SubagentsError, answered: bool, instance: str = "") -> None:
        """Prepare for another connection, or end here."""
        never_arrived = self._stage is Stage.UNCERTAIN and isinstance(error, UnknownDispatch)
        if never_arrived and instance and instance == self._sent_to:
            self._stage = Stage.UNSENT  # the same run of the sidecar would know of it
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
        assignment = self._assignment
        may_run = self._stage in {Stage.UNCERTAIN, Stage.ACCEPTED}
        if not assignment.calls or (not may_run and caller_can_mend(error)):
            self._end = error
            raise error
        self._end = synthesised_result(
            assignment.dispatch_id, assignment.calls, assignment.surface, error, assignment.first_index, self._told
        )

    def _let_go(self) -> None:
        if self._frames is not None:
            self._frames.cancel()
            self._frames = None


def _instance_of(frames: Frames | None) -> str:
    """Return which run of the sidecar answers; empty: only a lane says so."""
    return frames.instance_id if isinstance(frames, LaneOperation) else ""
