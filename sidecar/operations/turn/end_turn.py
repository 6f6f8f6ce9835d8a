"""Ends a turn: stops running calls, gives every child its verdict, closes it, and writes the routing decision.

The reaper does the same for a turn whose parent is lost. The facts are prepared once, so an end that could not be
recorded can be repeated and writes the same facts.
"""

from datetime import datetime

import msgspec

from sidecar.core.errors import InternalError, RecordConflict, StoreUnavailable, SubagentsError, TurnIdReused
from sidecar.core.history.message_layers import refuse_component_data
from sidecar.operations.first_result import FirstResult
from sidecar.operations.history.capture import HistoryCapture, history_of
from sidecar.operations.record.timed_access import append_within, read_within
from sidecar.operations.requests import EndTurnRequest
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.end_records import plan_end
from sidecar.operations.turn.find_turn import FindTurn
from sidecar.operations.turn.restore_turn import RestoreTurn
from sidecar.operations.turn.settle_child import child_named, refuse_contradiction
from sidecar.operations.turn.state.dispatch_stages import DispatchStage
from sidecar.operations.turn.state.open_turns import Turn, Turns
from sidecar.operations.turn.state.turn import Origin
from sidecar.operations.turn.state.turn_ends import BY_OPERATOR, BY_PARENT, IDLE, PARENT_GONE, EndCause, TurnClosed
from subagents_errors import CallFailure

TRIES = 3
"""How often the end is appended at most. After a conflict, which another process's append causes, it is tried again."""


class EndTurn:
    """The operation. The reaper uses it for turns whose parent is lost."""

    def __init__(
        self,
        rules: DispatchRules,
        dependencies: TurnDependencies,
        turns: Turns,
        captures: HistoryCapture,
        *,
        find: FindTurn,
        restore: RestoreTurn,
    ) -> None:
        self._rules = rules
        self._deps = dependencies
        self._turns = turns
        self._captures = captures
        self._find, self._restore = find, restore

    async def __call__(self, request: EndTurnRequest) -> tuple[TurnClosed, bool]:
        """End the turn; also return whether an earlier request ended it.

        Raises:
            TurnIdReused: the turn was ended with other contents.
            ChildClosed: a verdict contradicts the verdict that the child was closed with. Nothing was changed.
            UnknownChild: a verdict names a child that the turn does not have. Nothing was changed.
            InlineComponent: the narration contains component data. Nothing was changed. Source: PC1-FR-10a.
            StoreUnavailable: the end could not be recorded; repeat the request.
            SurfaceTokenInvalid, SurfaceTokenExpired.
        """
        # Before the look-up, which may read the record: an invalid request costs no read.
        refuse_component_data("narration", request.narration)
        turn = await self._find(request.surface_token)
        ending = turn.ending
        # A verdict may name a child that another sidecar ran, or one whose append was confirmed late. The record knows
        # it.
        if ending.closed is None and [each for each in request.integrations if each.child_id not in turn.children]:
            await self._restore(turn)
        # A former attempt may have ended the turn without a confirmation, and the restore above may have found that end
        # in the record. No other code would report it.
        self.report(turn)
        # The turn keeps the request. The token has kilobytes, so the request shares the turn's copy of it.
        request = msgspec.structs.replace(request, surface_token=turn.token)
        _refuse_contradiction(turn, request)
        if ending.closed is not None:
            return ending.closed, True
        for integration in request.integrations:
            refuse_contradiction(child_named(turn, integration.child_id), integration.verdict)
        # From here on calls are stopped: every check that must leave the turn unchanged is above this line.
        closed = await self._end(turn, request)
        # Another sidecar ended the turn meanwhile. Its request may have had other contents, which only the record
        # shows.
        if ending.found_on_record:
            _refuse_contradiction(turn, request)
        return closed, not ending.asked_for_here

    async def reap(self, turn: Turn, cause: EndCause = PARENT_GONE) -> bool:
        """End a turn that its parent did not end.

        Returns:
            False if the turn has not ended, e.g. because the store is unavailable: the reaper tries again later. True
            also if the turn is left to another sidecar.
        """
        try:
            await self._end(turn, None, cause)
        except SubagentsError as error:
            # `_leave_to_other` has forgotten the turn.
            if self._turns.known(turn.turn_id) is not turn:
                return True  # another sidecar uses the turn and will end it
            self._deps.recorder.anomaly("reap_failed", f"{turn.turn_id}: {error.reason}")
            return False
        return True

    async def for_operator(self, turn: Turn) -> TurnClosed:
        """End a turn that its parent did not end. Raises `StoreUnavailable`, `RecordConflict`."""
        return await self._end(turn, None, BY_OPERATOR)

    def give_up(self, turn: Turn) -> None:
        """End an idle turn to make room for others. Does not wait."""
        # Not in the task: `Turns` has removed the turn from its idle ones, so it must refuse dispatches from now on.
        self._begin(turn, None, IDLE)
        self._deps.recorder.idle_turn_ended("room")
        self._deps.spawner.spawn(self._reap_idle(turn), f"give up {turn.turn_id}")

    async def _reap_idle(self, turn: Turn) -> None:
        await self.reap(turn, IDLE)

    async def _end(self, turn: Turn, request: EndTurnRequest | None, cause: EndCause = BY_PARENT) -> TurnClosed:
        """Begin or join the attempt to end the turn, and wait for it. Raises the error of a failed attempt."""
        if turn.ending.closed is not None:
            return turn.ending.closed
        result = await self._begin(turn, request, cause).wait()
        if isinstance(result, SubagentsError):
            raise result
        return result

    def _begin(
        self, turn: Turn, request: EndTurnRequest | None, cause: EndCause
    ) -> FirstResult[TurnClosed | SubagentsError]:
        """Return the running attempt to end the turn; begin one if there is none."""
        attempt = turn.ending.attempt
        if attempt is None or attempt.settled:
            # The end runs in its own task: a caller that disconnects must not stop an end half-way. All callers of the
            # same end share its result.
            attempt = turn.ending.begin(request, cause)
            self._turns.begins_work(turn)
            self._deps.spawner.spawn(self._close(turn), f"end {turn.turn_id}")
        return attempt

    async def _close(self, turn: Turn) -> None:
        """Close the turn and wake all waiters. This completes even if every waiter was cancelled."""
        ending = turn.ending
        try:
            await self._stop(turn)
            refused = await self._put_on_record(turn)
            if refused is None and ending.closed is None:  # `closed`: the record showed that the turn had ended
                turn.end_recorded()
            ending.conclude(refused)
            if ending.closed is not None:
                self.report(turn)
                self._turns.ended(turn)
        finally:
            self._turns.ends_work(turn)
            # `conclude` ignores this error unless a defect raised above: without it, the waiters would wait for ever.
            ending.conclude(InternalError("the turn could not be ended; try again"))

    def report(self, turn: Turn) -> None:
        """Report the routing decision and store the history, once, and only if this process recorded the end."""
        routing = turn.ending.unreported
        if routing is not None:
            turn.ending.reported()
            self._deps.recorder.turn_routed(routing)
            self._capture(turn, routing.ended_at)

    async def _put_on_record(self, turn: Turn) -> SubagentsError | None:
        """Record the end. After a conflict, read the record and prepare the end again."""
        store, seconds = self._deps.store, self._rules.record_timeout.total_seconds()
        ending = turn.ending
        refused: SubagentsError | None = None
        for _ in range(TRIES):
            try:
                if turn.uncertain:
                    # An empty append is a barrier: the writer decides groups in order, so it returns after every
                    # earlier group of this process is accepted or refused. Only then does a read show the final state
                    # of the turn. A timeout is ignored: an end made from an outdated read conflicts and is repeated.
                    await read_within(store.append(()), seconds)
                if turn.uncertain or (ending.laid_out is None and self._may_have_unknown_dispatches(turn)):
                    await self._restore(turn)
                    turn.note_confirmed()
            except StoreUnavailable as error:
                return error
            if ending.closed is not None:
                return None
            if ending.cause.yields and _is_used_elsewhere(turn):
                self._leave_to_other(turn)
                return RecordConflict("another sidecar works in the turn; ask again")
            # The drafts are prepared once and reused by each retry: the salt identifies a draft, so an end whose answer
            # was lost is recognised as recorded instead of being refused as a second end.
            laid_out = ending.laid_out or ending.lay_out(plan_end(turn, self._deps))
            refused = await append_within(store, laid_out.drafts, self._deps.clock.monotonic() + seconds)
            if not isinstance(refused, RecordConflict) or ending.closed is not None:
                return refused
            ending.contradicted()
            turn.note_unconfirmed()
        return refused

    def _may_have_unknown_dispatches(self, turn: Turn) -> bool:
        """Return whether the record may contain dispatches of the turn that this process does not know.

        An earlier process on this record may have bound the same turn. Opening a dispatch would detect that, because
        the steps are used already. A turn without a dispatch gives no such sign, so its record must be read.
        """
        store = self._deps.store
        return store.waits and (store.shared or turn.origin is not Origin.BOUND_HERE or not turn.dispatches)

    def _leave_to_other(self, turn: Turn) -> None:
        """Leave an idle turn to the sidecar that uses it; unrecorded facts must be appended first."""
        if turn.unrecorded and turn.ending.laid_out is None:
            turn.ending.give_back()
        else:
            self._turns.forget(turn)

    def _capture(self, turn: Turn, ended_at: datetime) -> None:
        """Pass the turn to the history, without delaying its result. Source: PC1-D-12."""
        request = turn.ending.request
        narration, user_message = (request.narration, request.user_message) if request else ("", "")
        self._captures.capture(history_of(turn, ended_at, narration, user_message))

    async def _stop(self, turn: Turn) -> None:
        """Stop running calls and wait for their outcomes, which takes no longer than recording them."""
        dispatches = [each for each in turn.dispatches.values() if each.stage is not DispatchStage.FINISHED]
        # Stop all dispatches before waiting for any: none may continue to run while the outcomes of another are
        # recorded.
        for dispatch in dispatches:
            dispatch.calls.stop_all(CallFailure.TURN_OVER)
        for dispatch in dispatches:
            if await dispatch.opened.wait() is None and dispatch.ownership.here:
                await dispatch.finished.wait()


def _is_used_elsewhere(turn: Turn) -> bool:
    """Return whether another living sidecar used the turn last. That sidecar ends the turn once it is idle there."""
    last = max(turn.dispatches.values(), key=lambda each: each.plan.first_step, default=None)
    return last is not None and last.ownership.alive_elsewhere


def _refuse_contradiction(turn: Turn, request: EndTurnRequest) -> None:
    """Raise `TurnIdReused` if the turn was ended with different contents."""
    if turn.ending.contradicts(request):
        raise TurnIdReused("the turn was ended with other contents", metadata={"turn_id": turn.turn_id})
