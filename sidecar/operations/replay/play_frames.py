"""Plays the recorded inputs of a turn's attempts: runner frames, results of the tool gateway, stops, and waits."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, cast

from sidecar.core.definitions.cards.card import Card
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, ToolId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import Body, ChildrenOpened, DispatchOpened
from sidecar.core.replaying.document import Recorded
from sidecar.core.replaying.frames import (
    AskedFrame,
    ComponentFrame,
    DelegationFrame,
    EndFrame,
    FinishedFrame,
    Frame,
    GatewayFrame,
    Narration,
    RecordedAttempt,
    Status,
    StoppedFrame,
    UnexpectedFrame,
    UsageFrame,
)
from sidecar.operations.ports import Ids
from sidecar.operations.process.turn_assembly import Operations
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.operations.turn.state.ledger import Delegation
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.policy.protocols import (
    Answerer,
    Asked,
    ComponentMade,
    NarrationPart,
    QuestionKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from subagents_errors import CallFailure

MICROSECOND: Final = 1e-6
SAME_MOMENT: Final = 1e-3
"""Seconds.

All calls of a turn are stopped in one step, which takes microseconds; cancellations by users are further apart.
"""
Stops = dict[tuple[DispatchId, CallId], tuple[CallFailure, float]]
"""By call: the reason for the stop, and the seconds after the begin of its dispatch."""
Happening = GatewayFrame | DelegationFrame | StoppedFrame
"""Recorded inputs that did not come from the runner."""


@dataclass(slots=True)
class Recording:
    """The recorded turn, and the progress of its replay.

    Attributes:
        begun_at: the begin of each dispatch, by the event loop's clock.
    """

    attempts: Recorded
    begun_at: dict[DispatchId, float] = field(default_factory=dict)
    unrecorded: list[str] = field(default_factory=list)
    _calls: dict[DispatchId, tuple[int, tuple[CallId, ...]]] = field(default_factory=dict)

    def attempt(self, child: Child, number: int) -> RecordedAttempt | None:
        """Return one attempt, counted from 1; None if it was not made in the recorded turn."""
        made = self.attempts.get((child.dispatch_id, child.call_id), ())
        return made[number - 1] if 0 < number <= len(made) else None

    def durable_at(self, drafts: Sequence[Draft]) -> float:
        """Return when the recorded store had confirmed `drafts`, as far as an attempt waited for it (loop's clock)."""
        # The earliest: no child of an append could begin before the append was durable, and the first one began then.
        return min((at for draft in drafts for at in self._began(draft.body)), default=0.0)

    def _began(self, body: Body) -> Iterator[float]:
        """Yield the begin of the first attempt of each child that a fact opens."""
        if isinstance(body, DispatchOpened):
            self._calls[body.dispatch_id] = body.first_step, body.asked.call_ids
        if not isinstance(body, DispatchOpened | ChildrenOpened):
            return
        first, call_ids = self._calls[body.dispatch_id]
        for start in body.children:
            call_id = CallId(start.child_id) if start.parent is not None else call_ids[start.step - first]
            made = self.attempts.get((body.dispatch_id, call_id), ())
            if made:
                yield self.begun_at[body.dispatch_id] + made[0].began * MICROSECOND

    def stops_before_running(self) -> Stops:
        """Return the calls that were stopped while they waited."""
        found = self._stops()
        for call, made in self.attempts.items():
            if any(isinstance(frame, StoppedFrame) for attempt in made for frame in attempt.frames):
                found.pop(call, None)  # the attempt's own frames have the exact time
        return found

    def stopped_with(self, child: Child) -> Iterator[tuple[DispatchId, CallId, CallFailure]]:
        """Return the waiting calls that were stopped at the same moment as this running one."""
        own = self._stops().get((child.dispatch_id, child.call_id))
        if own is None:
            return
        at = self.begun_at[child.dispatch_id] + own[1]
        for (dispatch_id, call_id), (reason, after) in self.stops_before_running().items():
            if dispatch_id in self.begun_at and abs(self.begun_at[dispatch_id] + after - at) < SAME_MOMENT:
                yield dispatch_id, call_id, reason

    def _stops(self) -> Stops:
        return {
            (DispatchId(each.dispatch_id), CallId(each.call_id)): (CallFailure[each.reason], each.at * MICROSECOND)
            for made in self.attempts.values()
            for attempt in made
            for each in attempt.stopped_calls
        }


class RecordedGrants(GrantTable):
    """A grant table that remembers the child of each attempt.

    Attributes:
        ended: the child whose attempt ended last.
    """

    def __init__(self, ids: Ids) -> None:
        super().__init__(ids)
        self.children: dict[AttemptId, Child] = {}
        self.ended: Child | None = None

    def mint(self, child: Child, attempt_id: AttemptId) -> str:
        """Mint a grant, and remember the child."""
        self.children[attempt_id] = child
        return super().mint(child, attempt_id)

    def revoke(self, attempt_id: AttemptId) -> bool:
        """Revoke a grant, and remember the child: the wait before its next attempt is drawn immediately afterwards."""
        self.ended = self.children.get(attempt_id)
        return super().revoke(attempt_id)


class RecordedChance:
    """Returns the random waits of the recorded turn."""

    def __init__(self, recording: Recording, grants: RecordedGrants) -> None:
        self._recording, self._grants = recording, grants

    def uniform(self, low: float, high: float) -> float:
        """Return the recorded wait after the attempt that has just ended; the shortest one if there is none."""
        child = self._grants.ended
        attempt = None if child is None else self._recording.attempt(child, child.attempts)
        return low if attempt is None or attempt.pause is None else attempt.pause * MICROSECOND


class RecordedRunner:
    """Acts as every runner of the turn: reports the recorded events at their recorded times."""

    target = "recorded"

    def __init__(self, recording: Recording, grants: RecordedGrants) -> None:
        self._recording = recording
        self._grants = grants
        self.operations: Operations | None = None

    def runner_for(self, card: Card) -> "RecordedRunner":
        """Return itself."""
        return self

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Play one attempt."""
        loop, child = asyncio.get_running_loop(), self._grants.children[request.attempt_id]
        attempt = self._recording.attempt(child, request.attempt)
        if attempt is None:
            self._recording.unrecorded.append(f"{child.dispatch_id} {child.call_id}: attempt {request.attempt}")
            # Not transient: a retry would make still more attempts that were not recorded.
            raise RunnerError("this attempt was not made when the turn was recorded")
        # Here, attempts of children that were opened together begin at the same moment. In the recorded turn they began
        # one after the other, so each waits for its recorded time.
        began = max(loop.time(), self._recording.begun_at[child.dispatch_id] + attempt.began * MICROSECOND)
        for frame in attempt.frames:
            if isinstance(frame, Happening):
                # At its recorded time and independently of the runner's events: it may have come while the runner was
                # silent.
                loop.call_at(began + frame.at * MICROSECOND, self._happen, child, frame)
        for frame in attempt.frames:
            if isinstance(frame, Happening):
                continue
            # To an absolute time: relative sleeps would add up their rounding errors.
            await asyncio.sleep(began + frame.at * MICROSECOND - loop.time())
            if isinstance(frame, EndFrame):
                _end(frame)
                return
            yield _event(frame)
        await asyncio.Event().wait()  # the recorded attempt ran until it was cancelled

    async def close(self) -> None:
        """Do nothing."""

    def _happen(self, child: Child, frame: Happening) -> None:
        """Repeat what the gateway, a delegation or a cancellation did to a child in the recorded turn."""
        match frame:
            case GatewayFrame():
                child.use(frame.effect, ToolId(frame.tool))
            case DelegationFrame():
                self._delegate(child, frame)
            case StoppedFrame(_, reason):
                self._stop(child, CallFailure[reason])

    def _stop(self, child: Child, reason: CallFailure) -> None:
        """Stop a call, and in the same step those that were stopped with it: none of them may start in its place."""
        dispatch = self._dispatch(child)
        if dispatch is None:
            return
        dispatch.calls.stop(child.call_id, reason)
        for dispatch_id, call_id, why in self._recording.stopped_with(child):
            other = dispatch.turn.dispatches.get(dispatch_id)
            if other is not None:
                other.calls.stop(call_id, why)

    def _delegate(self, child: Child, frame: DelegationFrame) -> None:
        """Count what a delegation counted; the delegated child itself is not replayed."""
        if frame.over:
            used = Usage(frame.input_tokens, frame.output_tokens, frame.cached_input_tokens)
            child.ledger.delegated(ChildId(frame.child_id))
            # The budget counted these tokens while the delegated child ran; here they all count at its end.
            child.ledger.use_tokens(used.total)
            child.add_below(used, barred=frame.barred, sent=frame.sent, unknown=frame.unknown)
            return
        delegation, dispatch = Delegation(), self._dispatch(child)
        delegation.end()  # no caller waits for it
        child.ledger.delegate(ChildId(frame.child_id), delegation)
        if dispatch is not None:
            # The delegated child had a step; without it, later calls would get other emission indexes.
            dispatch.turn.take_steps(1)

    def _dispatch(self, child: Child) -> LiveDispatch | None:
        turn = None if self.operations is None else self.operations.turns.known(child.log.run_id)
        return None if turn is None else turn.dispatches.get(child.dispatch_id)


def _event(frame: Frame) -> RunnerEvent:
    event: RunnerEvent
    match frame:
        case Status(_, named, attributes):
            event = StatusReported(named, attributes)
        case Narration(_, text):
            event = NarrationPart(text)
        case ComponentFrame(_, name, tool_input, data):
            event = ComponentMade(name, tool_input, data)
        case UsageFrame(_, read, written, cached):
            event = UsageReported(read, written, cached)
        case AskedFrame(_, data_unavailable, kind, text, about_json, answerer, lasts, state):
            expires_in = None if lasts is None else timedelta(seconds=lasts)
            asked = Asked(QuestionKind(kind), text, about_json, Answerer(answerer), expires_in, state)
            event = RunFinished(data_unavailable, asked)
        case FinishedFrame(_, data_unavailable):
            event = RunFinished(data_unavailable)
        case UnexpectedFrame():
            event = cast("RunnerEvent", frame)  # any object that is no event: the checks must reject it
        case _:
            raise TypeError(f"{type(frame).__name__} is nothing that a runner reports")
    return event


def _end(frame: EndFrame) -> None:
    """End the stream as the recorded stream ended."""
    match frame.how:
        case "error":
            raise RunnerError(frame.what, transient=frame.transient, unreachable=frame.unreachable)
        case "cancelled":
            raise asyncio.CancelledError
        case "raised":
            raise ReplayDefect(frame.what)
        case _:
            return


class ReplayDefect(Exception):
    """Represents an exception that a runner raised; the text names its class."""
