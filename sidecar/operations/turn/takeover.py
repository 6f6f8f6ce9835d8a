"""Continues a dispatch that another sidecar opened.

A task here follows the dispatch while that sidecar lives, and takes it over when that sidecar is dead. This happens
only on request: a parent resumes the dispatch, or the dispatch must run without a listener. `orphans.py` settles the
dispatches that no parent asks for.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from sidecar.core.dispatching.slot_queues import QueuedCall
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import CallId
from sidecar.core.journal.facts import DispatchTaken
from sidecar.core.journal.marks import What
from sidecar.core.journal.texts import Texts
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.requests import OnDisconnect
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.execute_dispatch import ExecuteDispatch
from sidecar.operations.turn.restore_turn import RestoreTurn, events_of_owner
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.dispatch_stages import Custody, DispatchStage
from sidecar.operations.turn.state.ending import EndStage
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turn, Turns

if TYPE_CHECKING:
    from sidecar.operations.turn.continuing import ContinueWork


class TakeOver:
    """Brings the dispatches of other sidecars to their result."""

    def __init__(
        self,
        rules: DispatchRules,
        dependencies: TurnDependencies,
        restore: RestoreTurn,
        execute: ExecuteDispatch,
        turns: Turns,
        continue_work: "Callable[[], ContinueWork]",
    ) -> None:
        self._rules = rules
        self._deps = dependencies
        self._restore = restore
        self._execute = execute
        self._turns = turns
        self._continue_work = continue_work

    def __call__(self, dispatch: LiveDispatch, *, unheard: bool = False) -> None:
        """Start the work that completes `dispatch`. Does not wait.

        Args:
            dispatch: restored from the record.
            unheard: continue even without a listener.
        """
        if dispatch.ownership.custody is not Custody.ELSEWHERE or dispatch.stage is DispatchStage.FINISHED:
            return
        # `follow` changes the custody before the task starts. A second request in the same pass therefore sees the
        # dispatch as followed, and no two tasks take over the same dispatch.
        dispatch.ownership.follow()
        self._turns.begins_work(dispatch.turn)
        self._deps.spawner.spawn(self._follow(dispatch, unheard), f"go on with {dispatch.dispatch_id}")

    def continue_own(self, turn: Turn) -> None:
        """Execute the dispatches that this process owns in the record but does not run. Does not wait.

        A request that takes a dispatch over as a side effect (it cancels a call or closes a child) calls this. No other
        sidecar would continue the dispatch, because its owner lives.
        """
        for dispatch in [
            each for each in turn.dispatches.values() if each.ownership.owner == self._deps.store.instance
        ]:
            self(dispatch, unheard=True)

    async def _follow(self, dispatch: LiveDispatch, unheard: bool) -> None:
        turn, ownership = dispatch.turn, dispatch.ownership
        try:
            while dispatch.stage is not DispatchStage.FINISHED and turn.ending.closed is None:
                # A dispatch that this process owns but does not run (see `continue_own`) has no living owner elsewhere;
                # it needs no `DispatchTaken`.
                mine = ownership.owner == self._deps.store.instance
                if not ownership.alive_elsewhere and await self._take_over(dispatch, mine=mine, unheard=unheard):
                    return
                await asyncio.sleep(self._rules.record_poll_interval.total_seconds())
                # Without a listener there is no reason to poll the record: a later resume starts to follow the dispatch
                # again.
                if not dispatch.heard and not unheard:
                    break
                await self._read_again(dispatch)
        finally:
            self._turns.ends_work(turn)
            if ownership.custody is Custody.FOLLOWED:
                # Reached if the listeners left or the task was cancelled. Without this, the dispatch would count as
                # followed although no task follows it, and a resume would wait for ever.
                dispatch.unfollow()

    async def _read_again(self, dispatch: LiveDispatch) -> None:
        """Update the turn from the record. If the store does not answer, only log it: the caller tries again later."""
        try:
            await self._restore(dispatch.turn)
        except StoreUnavailable:
            self._deps.recorder.anomaly("follow_failed", f"{dispatch.dispatch_id}: the store does not answer")

    async def _take_over(self, dispatch: LiveDispatch, *, mine: bool, unheard: bool) -> bool:
        """Take the dispatch over and execute it; return whether the dispatch is finished."""
        dispatch_id, turn, now = dispatch.dispatch_id, dispatch.turn, self._deps.clock.now()
        if not mine:
            # The next epoch is a compare-and-set: of several sidecars that see a dead owner, the record accepts one.
            # The others read the record again and follow the winner.
            body = DispatchTaken(dispatch_id, dispatch.ownership.epoch + 1)
            takeover = self._deps.store.draft(turn.turn_id, now, body, Texts())
            until = self._deps.clock.monotonic() + self._rules.record_timeout.total_seconds()
            if await append_within(self._deps.store, [takeover], until) is not None:
                await self._read_again(dispatch)
                return dispatch.stage is DispatchStage.FINISHED
        try:
            # The restore must come after the takeover. Facts that the former owner appended before it count; after it
            # the record refuses the owner's appends, so nothing can be missed between this read and the first append
            # here.
            await self._restore(turn)
            if dispatch.calls.answers:
                await self._continue_work().restore(dispatch)
        except StoreUnavailable:
            return False
        finished = dispatch.stage is DispatchStage.FINISHED
        mine = dispatch.ownership.owner == self._deps.store.instance
        # The restore may show what happened during the append: the dispatch ended, the turn ends, or a third sidecar
        # took over.
        if finished or turn.ending.stage is not EndStage.OPEN or not mine:
            return finished
        self._deps.recorder.anomaly("dispatch_taken_over", f"{dispatch_id} of {turn.turn_id}")
        recorded = self._begin(dispatch)
        # The dispatch must count as unheard before the work begins. Otherwise a child that ends immediately would
        # settle in a dispatch that seems to have a listener, and `on_disconnect` would never apply.
        dispatch.leave(None, self._grace_of(dispatch, unheard=unheard))
        self._execute.begin(dispatch, recorded)
        await self._execute(dispatch)
        return True

    def _grace_of(self, dispatch: LiveDispatch, *, unheard: bool) -> timedelta:
        """Return how long a dispatch without a listener waits before `on_disconnect` applies.

        If a request other than a resume brought the dispatch here, its client may still resume it: a dispatch that ends
        without a listener then waits as long as one whose sidecar died.
        """
        may_be_resumed = unheard and dispatch.request.on_disconnect is OnDisconnect.CANCEL
        return self._rules.resume_grace if may_be_resumed else timedelta(0)

    def _begin(self, dispatch: LiveDispatch) -> dict[CallId, Child]:
        """Prepare the rest of the dispatch for execution here; return the recorded children.

        There is no await in this function: no call may start before all recorded children have their places in the
        queues.
        """
        turn, now = dispatch.turn, self._deps.clock.now()
        after = events_of_owner(dispatch.ownership.epoch)
        dispatch.take_over(after, self._rules.record_timeout.total_seconds())
        unsettled = [each for each in dispatch.plan.run if each.place not in dispatch.calls.outcomes]
        unsettled_ids = {each.call.call_id for each in unsettled}
        recorded = {
            child.call_id: child for child in turn.children_of(dispatch.dispatch_id) if child.call_id in unsettled_ids
        }
        parallel = dispatch.request.join.max_parallel or turn.surface.fan_out_cap
        turn.queues.enter(
            [
                QueuedCall(dispatch.queue_keys[each.call.call_id], dispatch.dispatch_id, parallel, each.tool.ownership)
                # Calls with a recorded child enter their queue first. In emission order, a call that never began could
                # hold the slot that a recorded child was already using, and both would run.
                for each in sorted(unsettled, key=lambda each: each.call.call_id not in recorded)
            ]
        )
        for child in recorded.values():
            if child.call_id in dispatch.calls.continuations:
                child.continue_work(dispatch.calls.continuations[child.call_id])
            if child.log.state is ExecutionState.RUNNING:
                child.note(now, What.TAKEN_OVER)
        return recorded
