"""What a caller can do with a running or settled dispatch: listen again, or cancel one call.

Neither operation needs the connection that began the dispatch: a client may come back over another one, or to another
replica, which reads the dispatch from the record.
"""

from datetime import timedelta
from typing import Final

from sidecar.core.errors import RecordConflict, RunsElsewhere, StoreUnavailable, UnknownCall, UnknownDispatch
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.facts import CallsCancelled
from sidecar.core.journal.texts import Texts
from sidecar.operations.first_result import shield_until_done
from sidecar.operations.ready_list import Refusal
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.requests import CancelRequest, ResumeRequest
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.dispatch_calls import DispatchHandle, DispatchRecovery, attached, reload_lost
from sidecar.operations.turn.settle_child import taking
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from subagents_errors import CallFailure

AGAIN: Final = timedelta(seconds=1)
"""The time after which a client should repeat a refused cancel."""
TRIES: Final = 3
"""How often a cancellation is appended again when a concurrent append to the same turn makes it conflict."""


class ResumeDispatch:
    """Finds a dispatch again after a broken connection, whichever sidecar opened it."""

    def __init__(self, recovery: DispatchRecovery) -> None:
        self._recovery = recovery

    async def __call__(self, request: ResumeRequest) -> DispatchHandle:
        """Return the dispatch to listen to. Raises `UnknownDispatch`, `SurfaceTokenInvalid`, `StoreUnavailable`."""
        return await attached(await _find(self._recovery, request.surface_token, request.dispatch_id), self._recovery)


class CancelCall:
    """Cancels one call; the other calls of the dispatch continue."""

    def __init__(self, rules: DispatchRules, dependencies: TurnDependencies, recovery: DispatchRecovery) -> None:
        self._rules = rules
        self._deps = dependencies
        self._recovery = recovery

    async def __call__(self, request: CancelRequest) -> bool:
        """Stop the call immediately, and return when the cancellation is recorded.

        Returns:
            Whether the call was cancelled; False if it had already ended.

        Raises:
            UnknownDispatch, UnknownCall, RunsElsewhere, SurfaceTokenInvalid, StoreUnavailable.
        """
        dispatch = await _find(self._recovery, request.surface_token, request.dispatch_id)
        if request.call_id not in dispatch.calls.places:
            raise UnknownCall("the dispatch has no call with that call_id", metadata={"call_id": request.call_id})
        if dispatch.turn.runs_elsewhere(dispatch.dispatch_id):
            # The owner in memory may be outdated: the dispatch may have ended, or may have been taken over by this
            # process. Only the record can tell whether the cancel must be sent elsewhere.
            await self._recovery.restore(dispatch.turn)
            dispatch = await _find(self._recovery, request.surface_token, request.dispatch_id)
        _refuse_elsewhere(dispatch)
        # The call is stopped before the cancellation is recorded: a slow store must not let a cancelled sub-agent
        # continue.
        stopped = dispatch.calls.stop(request.call_id, CallFailure.CALL_CANCELLED)
        if unrecorded := dispatch.calls.waits_for_cancel(request.call_id):
            # Shielded: if the client disconnects, the record must still learn of the cancellation. Otherwise a sidecar
            # that takes the dispatch over would run the call again.
            work = self._record_and_continue(dispatch, request.call_id)
            await shield_until_done(self._deps.spawner, work, f"cancel {request.call_id} of {dispatch.dispatch_id}")
        return stopped or unrecorded  # `unrecorded` alone: an earlier cancel stopped the call but could not be recorded

    async def _record_and_continue(self, dispatch: LiveDispatch, call_id: CallId) -> None:
        """Record the cancellation.

        If this takes the dispatch over from a dead sidecar, its other calls continue here.
        """
        try:
            await self._save(dispatch, call_id)
        except StoreUnavailable:
            # The append may have succeeded, and with it a takeover. `SettleOrphans` reads an uncertain turn again and
            # continues the dispatch if this process now owns it.
            dispatch.turn.note_unconfirmed()
            raise
        self._recovery.take_over.continue_own(dispatch.turn)

    async def _save(self, dispatch: LiveDispatch, call_id: CallId) -> None:
        """Record that a call is cancelled, so that a sidecar that takes the dispatch over does not run it."""
        # A cancellation refers to recorded calls, so it is appended after the opening. If the opening was refused,
        # there is usually nothing to cancel.
        if await dispatch.opened.wait() is not None:
            await self._check_record(dispatch, dispatch.calls.places[call_id])
            return
        turn, dispatch_id, refused = dispatch.turn, dispatch.dispatch_id, await self._append(dispatch, call_id)
        for _ in range(TRIES):
            if not isinstance(refused, RecordConflict):
                break
            # A conflict has three causes: the call's outcome was recorded first, an earlier attempt to cancel
            # succeeded, or another sidecar owns the dispatch. The record tells which.
            stored = await self._recovery.restore(turn)
            found = None if stored is None else stored.dispatch(dispatch_id)
            if found is not None and found.is_over(dispatch.calls.places[call_id]):
                return
            _refuse_elsewhere(dispatch)
            refused = await self._append(turn.dispatches[dispatch_id], call_id)
        if refused is not None:
            raise refused

    async def _check_record(self, dispatch: LiveDispatch, place: int) -> None:
        """Return if a call of a dispatch that could not be opened here will never run.

        Raises:
            RunsElsewhere, StoreUnavailable: another request opened the dispatch meanwhile, or may have opened it.
        """
        stored = await self._recovery.restore(dispatch.turn)
        found = None if stored is None else stored.dispatch(dispatch.dispatch_id)
        if found is not None and not found.is_over(place):
            _refuse_elsewhere(dispatch)
            raise StoreUnavailable("the dispatch was opened again meanwhile; repeat the cancel", retry_after=AGAIN)

    async def _append(self, dispatch: LiveDispatch, call_id: CallId) -> Refusal:
        deps, now = self._deps, self._deps.clock.now()
        body = CallsCancelled(dispatch.dispatch_id, (dispatch.calls.places[call_id],))
        # In one append with the takeover, if one is needed: the record accepts cancellations only from the owner.
        drafts = [*taking(dispatch, deps.store, now), deps.store.draft(dispatch.turn.turn_id, now, body, Texts())]
        until = deps.clock.monotonic() + self._rules.record_timeout.total_seconds()
        refused = await append_within(deps.store, drafts, until)
        if refused is None:
            dispatch.calls.cancel_recorded(call_id)
            if dispatch.ownership.owner:
                dispatch.ownership.taken(deps.store.instance)
        return refused


def _refuse_elsewhere(dispatch: LiveDispatch) -> None:
    """Raise `RunsElsewhere` if another living sidecar runs the dispatch: only that one can stop its call."""
    if dispatch.turn.runs_elsewhere(dispatch.dispatch_id):
        raise RunsElsewhere("another sidecar runs the dispatch; cancel the call there, or end the turn here")


async def _find(recovery: DispatchRecovery, token: str, dispatch_id: DispatchId) -> LiveDispatch:
    """Return a dispatch from memory, or else from the record. Raises `UnknownDispatch`."""
    turn = await recovery.find(token)
    await reload_lost(turn, dispatch_id, recovery)
    if dispatch_id not in turn.dispatches:
        await recovery.restore(turn)
    dispatch = turn.dispatches.get(dispatch_id)
    if dispatch is None:
        raise UnknownDispatch("the turn has no dispatch with that dispatch_id", metadata={"dispatch_id": dispatch_id})
    return dispatch
