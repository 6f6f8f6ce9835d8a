"""Executes an accepted dispatch: every call gets one outcome, and the outcomes are joined in emission order.

Source: PC2-FR-6, PC2-FR-8a, TN-20.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.plan import PlannedCall, outcomes_without_run
from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import CallId
from sidecar.core.journal.making.settling import settled_call, settled_together
from sidecar.operations.ready_list import LaidOut, Refusal, Step
from sidecar.operations.turn.child.attempt_outcomes import count_call
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.child.drain import drain
from sidecar.operations.turn.child.open_child import make_child, opened_later
from sidecar.operations.turn.child.run_child import RunChild
from sidecar.operations.turn.spending import Spending
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from subagents_errors import CallFailure


class ExecuteDispatch:
    """Runs the calls of dispatches. The process owns this work, not the RPC that began the dispatch.

    Attributes:
        spending: decides whether the budgets in money allow the next child.
    """

    def __init__(self, dependencies: TurnDependencies, run_child: RunChild, spending: Spending) -> None:
        self._deps, self.spending = dependencies, spending
        self._run_child = run_child

    def begin(self, dispatch: LiveDispatch, begun: Mapping[CallId, Child]) -> None:
        """Start every call that has a free slot and no recorded outcome. Does not wait.

        Args:
            dispatch: accepted and recorded as open.
            begun: the children that are recorded already, by call.
        """
        # One clock reading for all children: they start in the same pass of the event loop, and reading the clock per
        # child is measurable in a large fan-out.
        now, began = self._deps.clock.now(), self._deps.clock.monotonic()
        unsettled = [each for each in dispatch.plan.run if each.place not in dispatch.calls.outcomes]
        for planned in unsettled:
            call_id = planned.call.call_id
            child = begun.get(call_id)
            try:
                # A new child is recorded in the fact that opened the dispatch, so it starts now. A restored child may
                # share its slot with another recorded child: it has to queue like a call that was never opened.
                if child is not None and not child.restored:
                    self._run(dispatch, planned, child, now, began)
                else:
                    self._queue(dispatch, planned, child)
            except Exception as defect:  # noqa: BLE001  a defect in one call must not affect the others
                self._give_up(dispatch, call_id, defect)
        if not unsettled:  # no call settles any more, so no call would finish the dispatch
            self._finish(dispatch)

    async def __call__(self, dispatch: LiveDispatch) -> None:
        """Run ready steps until every call has its outcome and every waiter is notified."""
        try:
            await drain(dispatch, self._deps, partial(self._give_up, dispatch))
            await dispatch.finished.wait()  # another drain may have replaced this one and continue the work
        except BaseException as stopped:
            dispatch.ready.close()  # the process stops: no task continues the steps
            for call_id in list(dispatch.calls.stops):
                self._give_up(dispatch, call_id, stopped)
            raise

    def _run(
        self, dispatch: LiveDispatch, planned: PlannedCall, child: Child, now: datetime, began: float | None = None
    ) -> None:
        began = self._deps.clock.monotonic() if began is None else began
        dispatch.running(child, now)
        self._run_child(child, planned, dispatch, partial(self._over, dispatch), now=now, began=began)

    def _queue(self, dispatch: LiveDispatch, planned: PlannedCall, child: Child | None) -> None:
        """Let a call begin when its slot is free, or end when it is stopped first.

        `child`: a restored child, if any.
        """
        call_id = planned.call.call_id

        def put_step(stopped: CallFailure | None) -> None:
            dispatch.ready.put(Step(call_id, partial(self._begin_late, dispatch, planned, child, stopped)))

        # `put_step` must not run the call itself: it is called by whatever frees the slot, in the middle of settling
        # another call.
        dispatch.turn.queues.turn_of(dispatch.queue_keys[call_id], dispatch.stop_of(call_id)).on_settled(put_step)

    def _begin_late(
        self,
        dispatch: LiveDispatch,
        planned: PlannedCall,
        child: Child | None,
        stopped: CallFailure | None,
        now: datetime,
    ) -> LaidOut:
        """Prepare a call that waited: record its child before it runs, unless it has one or must not begin any more."""
        if child is not None:
            # A restored child is on record: there is nothing to append before it runs.
            return LaidOut(lambda _, started_at: self._run(dispatch, planned, child, started_at))
        stopped = stopped or dispatch.stop_of(planned.call.call_id).how  # no child may be opened after a cancel
        if stopped is not None:
            reason = CallFailure.NOT_STARTED if stopped is CallFailure.JOIN_DEADLINE else stopped
            return self._not_begun(dispatch, outcomes_without_run(planned, Outcome.NOT_STARTED, reason), now)
        # The budget is checked here and not when the plan is made: a call that waited may start after others have spent
        # it.
        over_budget = self.spending.refusal(dispatch.turn, planned) if self.spending.limits else ""
        if over_budget:
            refused = outcomes_without_run(planned, Outcome.REFUSED, CallFailure.COST_BUDGET, over_budget)
            return self._not_begun(dispatch, refused, now)
        new = make_child(dispatch, planned, self._deps.clock.monotonic(), self._deps.ids)
        body, texts = opened_later(dispatch.dispatch_id, [new])
        opening = self._deps.store.draft(dispatch.turn.turn_id, now, body, texts)
        return LaidOut(partial(self._opened, dispatch, planned, new.child), opening=opening)

    def _opened(
        self,
        dispatch: LiveDispatch,
        planned: PlannedCall,
        child: Child,
        refused: Refusal,
        now: datetime,
    ) -> None:
        """Run a child after its opening was appended, or settle its call if the append was refused."""
        if refused is None:
            # Only now: the end of the turn closes every child in `turn.children`, and the record refuses an end that
            # names a child which is not on record.
            dispatch.turn.keep_child(child)
            self._run(dispatch, planned, child, now)
            return
        # The append may still succeed after its time limit. The turn is marked as uncertain, so that its end reads the
        # record first and closes a child that exists there.
        dispatch.turn.note_unconfirmed()
        outcome = outcomes_without_run(planned, Outcome.NOT_STARTED, CallFailure.RECORD_UNAVAILABLE)
        dispatch.ready.put(Step(outcome.call_id, partial(self._not_begun, dispatch, outcome)))

    def _not_begun(self, dispatch: LiveDispatch, outcome: CallOutcome, now: datetime) -> LaidOut:
        """Record the outcome of a call that never began, before it is reported.

        If it cannot be recorded now, the parent gets `RECORD_UNAVAILABLE` as the reason, and the next append or the end
        of the turn records that outcome.
        """
        turn, place = dispatch.turn, dispatch.calls.places[outcome.call_id]

        def tell(refused: Refusal, reported_at: datetime) -> None:
            reported = outcome
            # A conflict means that another sidecar owns the dispatch. Its outcome counts, so no correction is written
            # here.
            if refused is not None and not isinstance(refused, RecordConflict):
                reported = msgspec.structs.replace(outcome, reason=CallFailure.RECORD_UNAVAILABLE)
                # Revision 1: the first draft (revision 0) may be on record after all. The record keeps the highest
                # revision of an outcome, so both replicas and clients end with the same reason.
                correction = settled_together(dispatch.dispatch_id, [settled_call(reported, place, revision=1)])
                turn.happened(dispatch.dispatch_id, [self._deps.store.draft(turn.turn_id, now, *correction)])
            # In this callback and not before the append: a listener must not see an outcome that a crash could still
            # undo.
            self._over(dispatch, reported, reported_at)

        return LaidOut(tell, settled=settled_call(outcome, place))

    def _over(self, dispatch: LiveDispatch, outcome: CallOutcome, now: datetime) -> None:
        """Set the outcome of a call and free its slot. The last outcome finishes the dispatch."""
        dispatch.settled(outcome, now)
        # The outcome is set before the slot is released: the next call of the slot may start in this very call, and
        # must see a settled predecessor.
        dispatch.turn.queues.leave(dispatch.queue_keys[outcome.call_id])
        # `stops` has an entry for each call without an outcome, including calls that never start. A call that kept its
        # entry, or its place in the queue, would block the dispatch and count against the cap until the turn ends.
        if not dispatch.calls.stops:
            self._finish(dispatch)

    def _give_up(self, dispatch: LiveDispatch, call_id: CallId, why: BaseException) -> None:
        """Settle a call that has no outcome because of a defect or the end of the process."""
        if isinstance(why, Exception):
            self._deps.recorder.anomaly("call_defect", type(why).__name__)
        # The call may have settled before the defect, e.g. if its continuation raised. A call settles only once.
        if call_id in dispatch.calls.stops:
            outcome = outcomes_without_run(dispatch.calls.planned[call_id], Outcome.FAILED, CallFailure.INTERNAL)
            self._over(dispatch, outcome, self._deps.clock.now())

    def _finish(self, dispatch: LiveDispatch) -> None:
        """Join the outcomes in emission order, in whatever order they arrived. Source: SX-50, TN-22."""
        overhead = dispatch.overhead()
        outcomes = dispatch.finish(overhead).outcomes
        # After a takeover the new owner counts these calls; counting here as well would count them twice over all
        # replicas.
        if dispatch.ownership.conflict is None:
            failed = sum([outcome.outcome in (Outcome.FAILED, Outcome.DEGRADED) for outcome in outcomes])
            for outcome in outcomes:
                if outcome.child_id is None:  # a call that ran was counted when it settled
                    tool = dispatch.turn.surface.by_name.get(outcome.tool_name)
                    definition_id = "" if tool is None else tool.card.definition.id
                    count_call(self._deps.recorder, dispatch.turn, outcome, definition_id)
            self._deps.recorder.dispatch_settled(len(dispatch.plan.run), failed, overhead)
