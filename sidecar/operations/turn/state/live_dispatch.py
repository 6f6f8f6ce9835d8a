"""A dispatch in memory: its stage, its events and its listeners.

`dispatch_calls` and `restore_turn` create it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from sidecar.core.dispatching.frames import (
    CallState,
    CallStateChanged,
    DispatchEvent,
    DispatchResult,
    EventLog,
    Snapshot,
)
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.plan import DispatchPlan
from sidecar.core.identifiers import CallId
from sidecar.core.status_events.relay import ChildReporter
from sidecar.operations.deadlines import Deadline, Deadlines
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.ready_list import ReadyList
from sidecar.operations.requests import DispatchRequest, OnDisconnect
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.state.calls import Calls
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.dispatch_stages import Custody, DispatchStage, Ownership
from sidecar.operations.turn.state.inherited_context import inherited_context, with_context
from sidecar.operations.turn.state.progress import Listener, Listeners, ProgressReports
from sidecar.operations.turn.state.tracing import UNTRACED, DispatchTrace
from sidecar.operations.turn.state.transitions import IllegalTransition
from sidecar.operations.turn.state.turn import TurnState
from sidecar.policy.protocols import InheritedContext
from subagents_errors import CallFailure


class LiveDispatch:
    """One dispatch in memory, from its acceptance until its turn is forgotten.

    Attributes:
        stage, ownership: its stage, and the process that executes it.
        settle_at: the time at which every call is stopped, by the event loop's clock.
        record_by: the time until which outcomes may be recorded, by the same clock.
        result: None while it runs.
        finished_at: wall clock; None while it runs.
        opened: settles with None once its first children are recorded, or with the error that refused it.
        finished: settles with the result once every call has its outcome.
        calls: the state of each call.
        queue_keys: the key of each call that runs or waits in the turn's slot queues.
        ready: the next steps of its calls.
        deadlines: the deadlines of the dispatch and of everything that runs for it.
        trace: the parent of the attempts' spans.
        status: receives the progress reports of children.

    Args:
        settle_by: wall clock time at which the calls of a restored dispatch are stopped. None: it begins here.
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
        settle_by: datetime | None = None,
    ) -> None:
        # The token has kilobytes and is kept as long as the turn: all dispatches share one copy of it.
        self.request = msgspec.structs.replace(request, surface_token=turn.token)
        self.turn, self.plan, self.intents = turn, plan, intents
        self.dispatch_id, self._trace, self._clock = request.dispatch_id, trace, clock
        self.trace = trace.context
        self._inherited = inherited_context(turn.claims, request)
        self.received_at = self._clock.monotonic()
        self.settle_at = self.record_by = self.received_at
        self.ready = ReadyList()
        self.deadlines = Deadlines()
        self.stage = DispatchStage.OPENING
        self.ownership = Ownership(Custody.HERE if settle_by is None else Custody.ELSEWHERE)
        self.finished_at: datetime | None = None
        self.result: DispatchResult | None = None
        self.opened: FirstResult[Exception | None] = FirstResult()
        self.finished: FirstResult[DispatchResult] = FirstResult()
        self.calls = Calls(self.request, plan, clock)
        self.queue_keys: Mapping[CallId, str] = {
            each.call.call_id: f"{self.dispatch_id}\x1f{each.call.call_id}" for each in plan.run
        }
        self._log = EventLog(rules.replay_buffer_events)
        self._listeners = Listeners()
        self._progress = ProgressReports(
            rules.vocabulary,
            clock=clock,
            recorder=recorder,
            deadlines=self.deadlines,
            log=self._log,
            listeners=self._listeners,
        )
        self.status = self._progress.report
        self._unheard_deadline: Deadline | None = None  # runs while there is no listener; `listen` cancels it
        self._settle_by = settle_by
        if settle_by is not None:
            self.open()

    @property
    def sequence(self) -> int:
        """Sequence of the newest event."""
        return self._log.newest

    def inherited_of(self, call_id: CallId) -> InheritedContext:
        """Return the parts of the turn that the sub-agent of a call receives."""
        planned = self.calls.planned[call_id]
        return with_context(self._inherited, planned) if planned.prior_context else self._inherited

    # --- opening

    def open(self, begin: Callable[[], object] = lambda: None) -> None:
        """Note that the dispatch is recorded. `begin` starts its calls before any waiter learns of the opening."""
        if self.stage is not DispatchStage.OPENING:
            raise IllegalTransition("open", self.stage)
        self.stage = DispatchStage.OPEN
        try:
            begin()
        finally:  # a defect in `begin` must not leave clients waiting for the opening
            self.opened.settle(None)

    def withdraw(self, refused: Exception) -> None:
        """Undo the acceptance of a dispatch that could not be recorded, and wake the waiters for its opening."""
        if self.stage is not DispatchStage.OPENING:
            raise IllegalTransition("withdraw", self.stage)
        self.stage = DispatchStage.WITHDRAWN
        self.deadlines.cancel_all()
        self.turn.drop(self)  # so that a repeated request begins the dispatch again
        self._trace.ended(self.calls.run)
        for planned in self.plan.run:
            self.turn.queues.leave(self.queue_keys[planned.call.call_id])
        self.opened.settle(refused)

    # --- execution by other processes

    def begin_events_after(self, sequence: int) -> None:
        """Continue the sequence numbers of events after `sequence`."""
        self._log.begin_after(sequence)

    def take_over(self, events_after: int, margin: float) -> None:
        """Execute the unsettled calls here, until `settle_by`; see `begin_events_after`, `settle_within`."""
        left = (self._settle_by - self._clock.now()).total_seconds() if self._settle_by else 0.0
        self.ownership.take_over()
        self.begin_events_after(max(self.sequence, events_after))  # listeners here have seen `sequence` already
        self.settle_within(self._clock.monotonic() - self.received_at + max(0.0, left), margin)

    def unfollow(self) -> None:
        """Note that no task follows the dispatch any more. Without a result, it must be read from the record again."""
        if self.ownership.custody is not Custody.FOLLOWED:
            raise IllegalTransition("unfollow", self.ownership.custody)
        if self.stage is DispatchStage.FINISHED:
            self.ownership.unfollow()
        else:
            self.lose()  # becomes `Custody.GIVEN_UP`: a followed dispatch runs no calls here
            self.turn.note_unconfirmed()
            self.turn.drop(self)

    def lose(self) -> None:
        """Stop the execution here: another sidecar has taken the dispatch over, or may have; see `Ownership.lose`."""
        self.ownership.lose()
        self.calls.stop_all(CallFailure.RECORD_UNAVAILABLE)
        self._listeners.wake()

    # --- stopping

    def settle_within(self, seconds: float, margin: float) -> None:
        """Stop every call `seconds` after the arrival of the request; outcomes may be recorded for `margin` longer."""
        self.settle_at = self.received_at + seconds
        self.record_by = self.settle_at + margin
        self.deadlines.at(self.settle_at, self.calls.stop_all, CallFailure.JOIN_DEADLINE)

    def stop_of(self, call_id: CallId) -> FirstResult[CallFailure]:
        """Return the result that stops a running or waiting call when it settles."""
        return self.calls.stops[call_id]

    # --- events

    def running(self, child: Child, now: datetime) -> None:
        """Note that a call has begun to run."""
        if self.stage is not DispatchStage.OPEN:
            raise IllegalTransition("running", self.stage)
        self.calls.begin(child)
        self._progress.began(ChildReporter(self.calls.places[child.call_id], child.call_id, child.slot))
        self._log.add(now, CallStateChanged(child.call_id, CallState.RUNNING, None))
        if self._listeners.asleep:
            self._listeners.wake()

    def settled(self, outcome: CallOutcome, now: datetime) -> None:
        """Set the outcome of a call."""
        if self.stage is not DispatchStage.OPEN:
            raise IllegalTransition("settled", self.stage)
        self._progress.ended(self.calls.settle(outcome))
        self._log.add(now, CallStateChanged(outcome.call_id, CallState.SETTLED, outcome))
        if self._listeners.asleep:
            self._listeners.wake()

    def finish(self, overhead: timedelta = timedelta(0)) -> DispatchResult:
        """Set the result from the outcomes, and return it. Listeners get batched reports first, then the result.

        A lost dispatch reports nothing: its new owner does.
        """
        if self.stage is not DispatchStage.OPEN or len(self.calls.outcomes) < len(self.request.calls):
            raise IllegalTransition("finish", self.stage)
        self.result = DispatchResult(self.calls.joined(), self.intents, self.plan.cap, overhead)
        self.stage = DispatchStage.FINISHED
        self.deadlines.cancel_all()  # pending deadlines refer to this object and would keep it in memory
        self.ready.close()
        if self.ownership.conflict is None:
            self._progress.tell_rest()  # a listener stops reading at the result
            self.finished_at = self._clock.now()
            self.turn.overhead += overhead
            self._trace.ended(self.calls.run)
        self.finished.settle(self.result)
        self._listeners.wake()
        return self.result

    def finish_with_turn(self, outcomes: Mapping[CallId, CallOutcome]) -> None:
        """Finish with the outcomes from the end of the turn, unless the dispatch has finished."""
        if self.stage is not DispatchStage.FINISHED:
            self.calls.take_in(outcomes, {})
            self.finish()

    def overhead(self) -> timedelta:
        """Return the time so far during which no sub-agent ran. Source: PC2-NFR-1a."""
        return timedelta(seconds=max(0.0, self._clock.monotonic() - self.received_at - self.calls.busy_for))

    # --- listening

    def snapshot(self, *, attached: bool, after: int) -> Snapshot:
        """Return the present state, for a listener that has seen everything up to `after`."""
        return Snapshot(self.dispatch_id, attached, after, self.calls.snapshot())

    def events_after(self, sequence: int) -> Sequence[DispatchEvent]:
        """Return the events after `sequence`, preceded by a gap if some of them are no longer stored."""
        return self._log.after(sequence, self._clock.now())

    def listen(self) -> tuple[int, Listener]:
        """Add a listener; return its number and the listener."""
        if self._unheard_deadline is not None:
            self._unheard_deadline.cancel()
            self._unheard_deadline = None
        return self._listeners.add()

    async def wait_for_opening(self) -> Exception | None:
        """Return why the opening was refused, or None. The caller is a listener until it returns or is cancelled."""
        number, _ = self.listen()
        try:
            return await self.opened.wait()
        except asyncio.CancelledError:
            self.leave(number)
            raise
        finally:
            self._listeners.remove(number)

    def drains(self) -> None:
        """Wake the listeners before a drain of `ready`: they send earlier events first if the drain takes long."""
        self._listeners.wake()

    @property
    def heard(self) -> bool:
        """Whether the dispatch has listeners."""
        return bool(self._listeners)

    def leave(self, number: int | None, grace: timedelta = timedelta(0)) -> None:
        """Remove a listener. If a running dispatch has none left, apply the request's `on_disconnect`.

        Args:
            number: the listener's number; None: only apply `on_disconnect`.
            grace: how long the listener may take to return before it counts as gone.
        """
        self._listeners.remove(number)
        if self._listeners or self.stage is DispatchStage.FINISHED or not self.ownership.here:
            return
        if grace:
            # `listen` cancels it. A timer that survived a return would cut short the grace of the next break.
            at = self._clock.monotonic() + grace.total_seconds()
            self._unheard_deadline = self.deadlines.at(at, self.leave, None)
            return
        policy, continue_for = self.request.on_disconnect, self.request.continue_for
        if policy is OnDisconnect.CANCEL:
            self.calls.stop_all(CallFailure.CALL_CANCELLED)
        elif policy is OnDisconnect.CONTINUE_UNTIL and continue_for is not None:
            until = self._clock.monotonic() + continue_for.total_seconds()
            self._unheard_deadline = self.deadlines.at(until, self.calls.stop_all, CallFailure.CALL_CANCELLED)
