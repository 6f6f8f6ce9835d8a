"""Carry out an accepted dispatch: every call ends with one outcome, joined in emission order.

Source: PC2-FR-6, PC2-FR-8a, TN-20.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.plan import PlannedCall, not_run
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.records import CallSettled
from sidecar.core.identifiers import CallId
from sidecar.operations.record.timed_access import put_on_record
from sidecar.operations.turn.child.dependencies import Outside
from sidecar.operations.turn.child.open_child import make_child
from sidecar.operations.turn.child.run_child import RunChild
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from subagents_errors import CallFailure


class CarryOut:
    """Runs the calls of dispatches. Owned by the process, not by the RPC that began the dispatch."""

    def __init__(self, outside: Outside, run_child: RunChild) -> None:
        self._out = outside
        self._run_child = run_child

    async def __call__(self, dispatch: LiveDispatch, begun: Mapping[CallId, Child]) -> None:
        """Run what is to run and has no outcome on record yet, then tell everybody.

        Args:
            dispatch: accepted, and open on record.
            begun: the children that are on record already, by call.
        """
        left = [each for each in dispatch.plan.run if each.place not in dispatch.calls.outcomes]
        if not left:
            self._finish(dispatch)
        calls = [self._settle(dispatch, each, begun.get(each.call.call_id)) for each in left]
        # One alone has nobody to be kept from, and needs no task of its own.
        results = [await _caught(calls[0])] if len(calls) == 1 else await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                self._out.recorder.anomaly("call_defect", type(result).__name__)

    async def _settle(self, dispatch: LiveDispatch, planned: PlannedCall, child: Child | None) -> None:
        """Run one call in its turn; it is settled when this returns, and its lane is free."""
        outcome = not_run(planned, Outcome.FAILED, CallFailure.INTERNAL)
        try:
            if child is not None and child.restored:  # others may have what it owns by now
                lanes, key = dispatch.turn.lanes, dispatch.lane_key(planned.call.call_id)
                await lanes.turn_of(key, dispatch.stop_of(planned.call.call_id))
            started = child or await self._start_in_turn(dispatch, planned)
            if isinstance(started, Child):
                dispatch.running(started)
                outcome = await self._run_child(started, dispatch)
            else:
                outcome = await self._recorded(dispatch, started)
        finally:
            dispatch.settled(outcome)
            dispatch.turn.lanes.leave(dispatch.lane_key(planned.call.call_id))
            if len(dispatch.calls.outcomes) == len(dispatch.request.calls):
                self._finish(dispatch)  # here, so that the last change and the result leave in one frame

    async def _start_in_turn(self, dispatch: LiveDispatch, planned: PlannedCall) -> Child | CallOutcome:
        """Wait until the call may run, and put its child on record then."""
        call_id = planned.call.call_id
        stopped = await dispatch.turn.lanes.turn_of(dispatch.lane_key(call_id), dispatch.stop_of(call_id))
        if stopped is not None:
            reason = CallFailure.NOT_STARTED if stopped is CallFailure.JOIN_DEADLINE else stopped
            return not_run(planned, Outcome.NOT_STARTED, reason)
        child = make_child(dispatch, planned, self._out.clock, self._out.ids)
        records = child.take_unsaved()
        refused = await put_on_record(self._out.store, records, dispatch.record_by)
        if refused is not None:
            dispatch.turn.note_unconfirmed()
            if isinstance(refused, RecordConflict):
                dispatch.lose()
            return not_run(planned, Outcome.NOT_STARTED, CallFailure.RECORD_UNAVAILABLE)
        child.saved(records)
        dispatch.turn.keep_child(child)
        return child

    async def _recorded(self, dispatch: LiveDispatch, outcome: CallOutcome) -> CallOutcome:
        """Put the outcome of a call that never began on record, and return what is told.

        What cannot be recorded now is told as that, and goes along with the turn's end.
        """
        settled = CallSettled(dispatch.turn.turn_id, dispatch.dispatch_id, outcome, self._out.clock.now())
        refused = await put_on_record(self._out.store, [settled], dispatch.record_by)
        if isinstance(refused, RecordConflict):
            dispatch.lose()
        elif refused is not None:
            told = msgspec.structs.replace(outcome, reason=CallFailure.RECORD_UNAVAILABLE)
            dispatch.turn.add_late(msgspec.structs.replace(settled, outcome=told, revision=1))
            return told
        return outcome

    def _finish(self, dispatch: LiveDispatch) -> None:
        """Join the outcomes in emission order, whatever order they came in. Source: SX-50, TN-22."""
        overhead = dispatch.overhead()
        outcomes = dispatch.finish(overhead).outcomes
        if dispatch.ownership.conflict is None:
            failed = sum(1 for outcome in outcomes if outcome.outcome in (Outcome.FAILED, Outcome.DEGRADED))
            self._out.recorder.dispatch_settled(len(dispatch.plan.run), failed, overhead)


async def _caught(call: Coroutine[Any, Any, None]) -> Exception | None:
    """Return what it raises, as `gather` would."""
    try:
        await call
    except Exception as error:  # noqa: BLE001  a defect; the caller counts it
        return error
    return None
