"""A dispatch while it is kept here: where each call stands, what has happened, who listens."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from sidecar.core.dispatching.frames import (
    CallSnapshot,
    CallState,
    CallStateChanged,
    DispatchEvent,
    DispatchResult,
    EventLog,
    Snapshot,
    StatusUpdate,
)
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.plan import DispatchPlan
from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import CallId, ChildId, InstanceId, Slot
from sidecar.core.status_events.relay import Reporter
from sidecar.operations.first_result import Ending
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.requests import DispatchRequest, OnDisconnect
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.inherited_context import briefed, inherited_context
from sidecar.operations.turn.state.progress import Listeners, Progress
from sidecar.operations.turn.state.trace_context import TraceContext
from sidecar.operations.turn.state.tracing import UNTRACED, DispatchTrace
from sidecar.operations.turn.state.turn import TurnState
from sidecar.policy.protocols import InheritedContext
from subagents_errors import CallFailure


class LiveDispatch:
    """One dispatch, from its acceptance, with calls that wait or that the plan settled, until its turn is forgotten.

    Attributes:
        settle_at, record_by: of the loop's clock: when every call is stopped, and until when outcomes may be recorded.
        owner, epoch: whose it is on record, as last read there; empty while it has always been ours.
        owned_elsewhere: that is another process, and it lives, as last read there.
        runs_here: its calls are carried out by this process.
        settle_by: wall clock; of a dispatch that was brought back from the record.
        followed: something sees to it that it comes to its result although it does not run here.
        finished_at: wall clock; None while it runs.
        lost: settled when another sidecar has gone on with it; nothing of it is told here any more.
        first_step, places: what the plan was made with: emission index of the first call, free places under the cap.
        stopped: calls that were stopped, why, and when by the loop's clock; for replays.
        opened: settled with None once its children are on record, or with the error that refused it.
        finished: settled with the result once every call has its outcome.
    """

    def __init__(
        self,
        request: DispatchRequest,
        turn: "TurnState[LiveDispatch]",
        plan: DispatchPlan,
        intents: IntentReport,
        *,
        clock: Clock,
        recorder: Recorder,
        rules: DispatchRules,
        trace: DispatchTrace = UNTRACED,
    ) -> None:
        self.request, self.turn, self.plan, self.intents = request, turn, plan, intents
        self.dispatch_id, self._trace, self._clock = request.dispatch_id, trace, clock
        self._inherited = inherited_context(turn.claims, request)
        self.received_at = self._clock.monotonic()
        self.settle_at = self.record_by = self.received_at
        self._settle_timer: asyncio.TimerHandle | None = None
        self.first_step = self.places = self.epoch = 0
        self.owner, self.runs_here, self.owned_elsewhere, self.followed = InstanceId(""), True, False, False
        self.settle_by: datetime | None = None
        self.finished_at: datetime | None = None
        self.lost: Ending[RecordConflict] = Ending()
        self.opened: Ending[Exception | None] = Ending()
        self.finished: Ending[DispatchResult] = Ending()
        self.outcomes: dict[int, CallOutcome] = dict(plan.settled)
        self.busy_for = 0.0
        self._busy_since: float | None = None
        self._active = 0
        self._log = EventLog(rules.events_kept)
        self._progress = Progress(rules.vocabulary, clock=clock, recorder=recorder, tell=self._add)
        self._listeners = Listeners()
        self._leave_timer: asyncio.TimerHandle | None = None
        self._stops: dict[CallId, Ending[CallFailure]] = {each.call.call_id: Ending() for each in plan.run}
        self.stopped: list[tuple[CallId, CallFailure, float]] = []
        self._places = {call.call_id: place for place, call in enumerate(request.calls)}
        self._planned = {each.call.call_id: each for each in plan.run}
        self._children: dict[CallId, ChildId] = {}
        self._states = {
            call.call_id: CallState.SETTLED if place in plan.settled else CallState.WAITING
            for place, call in enumerate(request.calls)
        }

    @property
    def result(self) -> DispatchResult | None:
        """The result; None while it runs."""
        return self.finished.how

    @property
    def sequence(self) -> int:
        """Sequence of the newest event."""
        return self._log.newest

    @property
    def trace(self) -> TraceContext:
        """What attempts belong to."""
        return self._trace.context

    def lane_key(self, call_id: CallId) -> str:
        """Return the name of a call among all calls of the turn."""
        return f"{self.dispatch_id}\x1f{call_id}"

    def has_call(self, call_id: CallId) -> bool:
        """Say whether the dispatch has such a call."""
        return call_id in self._places

    def arguments_of(self, call_id: CallId) -> str:
        """Return the arguments of a call that its sub-agent is given."""
        return self._planned[call_id].arguments_json

    def inherited_of(self, call_id: CallId) -> InheritedContext:
        """Return what the sub-agent of a call is given of the turn."""
        return briefed(self._inherited, self._planned[call_id])

    # --- elsewhere

    def begin_events_after(self, sequence: int) -> None:
        """Count events on from `sequence`."""
        self._log.begin_after(sequence)

    def take_in(self, outcomes: Mapping[CallId, CallOutcome], children: Mapping[CallId, ChildId]) -> None:
        """Take in what is on record of the calls, without telling it as something that happened here."""
        self._children.update(children)
        for call_id, outcome in outcomes.items():
            place = self._places.get(call_id)
            if place is not None:
                self.outcomes[place] = outcome
                self._states[call_id] = CallState.SETTLED
                self._stops.pop(call_id, None)

    def joined(self, overhead: timedelta) -> DispatchResult:
        """Return the outcomes in emission order, whatever order they came in. Source: SX-50, TN-22."""
        outcomes = tuple(self.outcomes[place] for place in range(len(self.request.calls)))
        return DispatchResult(outcomes, self.intents, self.plan.cap, overhead)

    def lose(self) -> None:
        """Give it up: another sidecar has gone on with it."""
        self.lost.settle(RecordConflict("another sidecar has gone on with the dispatch; resume it"))
        self.drop_timers()
        self.stop_all(CallFailure.RECORD_UNAVAILABLE)
        self._listeners.wake()

    # --- stopping

    def settle_within(self, seconds: float, margin: float) -> None:
        """Stop every call `seconds` after the request came; their outcomes may be recorded for `margin` longer."""
        self.settle_at = self.received_at + seconds
        self.record_by = self.settle_at + margin
        loop = asyncio.get_running_loop()
        self._settle_timer = loop.call_at(self.settle_at, self.stop_all, CallFailure.JOIN_DEADLINE)

    def drop_timers(self) -> None:
        """Forget the timers of a dispatch that is over: they would keep it alive until they are due."""
        self._progress.drop_timer()
        for timer in (self._settle_timer, self._leave_timer):
            if timer is not None:
                timer.cancel()

    def stop_of(self, call_id: CallId) -> Ending[CallFailure]:
        """Return what stops one call that runs or waits to."""
        return self._stops[call_id]

    def stop(self, call_id: CallId, reason: CallFailure) -> bool:
        """Stop one call; say whether it was still going."""
        stop = self._stops.get(call_id)
        if stop is None or not stop.settle(reason):
            return False
        self.stopped.append((call_id, reason, self._clock.monotonic()))
        return True

    def stop_all(self, reason: CallFailure) -> None:
        """Stop every call that has not settled, in emission order."""
        for call_id in list(self._stops):
            self.stop(call_id, reason)

    # --- what happens

    def running(self, child: Child) -> None:
        """A call began to run."""
        if self._active == 0:
            self._busy_since = self._clock.monotonic()
        self._active += 1
        self._children[child.call_id] = child.child_id
        self._progress.began(Reporter(self._places[child.call_id], child.call_id, child.slot))
        self._change(child.call_id, CallState.RUNNING)

    def settled(self, outcome: CallOutcome) -> None:
        """A call has its outcome."""
        if self._states[outcome.call_id] is CallState.RUNNING:
            self._active -= 1
            if self._active == 0 and self._busy_since is not None:
                self.busy_for += self._clock.monotonic() - self._busy_since
        self._stops.pop(outcome.call_id, None)
        self.outcomes[self._places[outcome.call_id]] = outcome
        self._progress.ended(self._places[outcome.call_id])
        self._change(outcome.call_id, CallState.SETTLED, outcome)

    def status(self, child: Child, event_type: str, attributes: Mapping[str, str]) -> None:
        """A sub-agent reports progress. Source: PC2-FR-13."""
        self._progress.report(self._places[child.call_id], event_type, attributes)

    def finish(self, result: DispatchResult) -> None:
        """Every call has its outcome: pass on what is gathered, then the result."""
        self.drop_timers()
        self._progress.tell_rest()
        self.finished_at = self._clock.now()
        self.finished.settle(result)
        self.trace_ended()
        self._listeners.wake()

    def finish_with_turn(self, outcomes: Mapping[CallId, CallOutcome]) -> None:
        """Finish with what the end of the turn made of the calls, unless it has finished."""
        if not self.finished.settled:
            self.take_in(outcomes, {})
            self.finish(self.joined(timedelta(0)))

    def trace_ended(self) -> None:
        """End the span, if there is one."""
        self._trace.ended(len(self._children))

    def overhead(self) -> timedelta:
        """Return the time so far that was not spent waiting for sub-agents. Source: PC2-NFR-1a."""
        return timedelta(seconds=max(0.0, self._clock.monotonic() - self.received_at - self.busy_for))

    # --- listening

    def snapshot(self, *, attached: bool, after: int) -> Snapshot:
        """Return where things stand, for a listener that has seen everything up to `after`."""
        calls = tuple(
            CallSnapshot(call.call_id, self._slot_of(call.call_id), self._children.get(call.call_id), state)
            for call, state in zip(self.request.calls, self._states.values(), strict=True)
        )
        return Snapshot(self.dispatch_id, attached, after, calls)

    def events_after(self, sequence: int) -> Sequence[DispatchEvent]:
        """Return what happened after `sequence`, a gap first if some of it is not kept."""
        return self._log.after(sequence, self._clock.now())

    def listen(self) -> tuple[int, asyncio.Event]:
        """Add a listener; returns its number and what wakes it."""
        if self._leave_timer is not None:
            self._leave_timer.cancel()
            self._leave_timer = None
        return self._listeners.add()

    @contextmanager
    def about_to_listen(self) -> Iterator[None]:
        """Count whoever waits for the opening as a listener, so that leaving meanwhile is leaving, too."""
        number, _ = self.listen()
        try:
            yield
        except asyncio.CancelledError:
            self.leave(number)
            raise
        finally:
            self._listeners.remove(number)

    @property
    def heard(self) -> bool:
        """Say whether anybody listens."""
        return bool(self._listeners)

    def leave(self, number: int | None) -> None:
        """Remove a listener, if any; if nobody listens to a running dispatch now, do what its request asks for."""
        self._listeners.remove(number)
        if self._listeners or self.finished.settled or not self.runs_here:
            return
        policy, going_on = self.request.on_disconnect, self.request.continue_for
        if policy is OnDisconnect.CANCEL:
            self.stop_all(CallFailure.CALL_CANCELLED)
        elif policy is OnDisconnect.CONTINUE_UNTIL and going_on is not None:
            loop = asyncio.get_running_loop()
            self._leave_timer = loop.call_later(going_on.total_seconds(), self.stop_all, CallFailure.CALL_CANCELLED)

    def _slot_of(self, call_id: CallId) -> Slot | None:
        planned, settled = self._planned.get(call_id), self.outcomes.get(self._places[call_id])
        return planned.tool.slot if planned else settled.sub_agent_id if settled else None

    def _change(self, call_id: CallId, state: CallState, outcome: CallOutcome | None = None) -> None:
        self._states[call_id] = state
        self._add(CallStateChanged(call_id, state, outcome.outcome if outcome else None))

    def _add(self, what: CallStateChanged | StatusUpdate) -> None:
        self._log.add(self._clock.now(), what)
        self._listeners.wake()
