"""The parent's verdict on a child: the integration decides, then the child is closed (SX-25, SX-30, SX-34).

`CloseChild` does this for one child while the turn runs; the end of a turn does it for all others, with the functions
here. A child's methods prepare the events and refuse to do so twice; the operation makes the events durable.
"""

from collections.abc import Iterator
from datetime import datetime

from sidecar.core.errors import ChildClosed, RecordConflict, RunsElsewhere, UnknownChild
from sidecar.core.executing.events import COMPLETED_STATUS, FAILED_STATUS
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import ChildClosed as ChildClosedFact
from sidecar.core.journal.facts import DispatchTaken
from sidecar.core.journal.marks import Values
from sidecar.core.journal.texts import Texts
from sidecar.operations.first_result import shield_until_done
from sidecar.operations.record.ports import Store
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.requests import CloseChildRequest, Verdict
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.dispatch_calls import DispatchRecovery
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.turn_ends import ChildSummary


def is_contradicted(child: Child, verdict: Verdict) -> bool:
    """Return whether a child was closed with a different verdict."""
    if child.log.state is not ExecutionState.CLOSED:
        return False
    # `AUTOMATIC` contradicts nothing: it asks for whatever verdict the answer allows.
    return (verdict is Verdict.ACCEPTED and not child.integrated) or (verdict is Verdict.REJECTED and child.integrated)


def refuse_contradiction(child: Child, verdict: Verdict) -> None:
    """Raise `ChildClosed` if the child was closed with a different verdict."""
    if is_contradicted(child, verdict):
        raise ChildClosed(
            "the child was closed with another verdict already; end the turn without one for it",
            metadata={"child_id": child.child_id, "close_reason": child.close_reason},
        )


def taking(dispatch: LiveDispatch | None, store: Store, now: datetime) -> Iterator[Draft]:
    """Yield the fact with which this process takes over a dispatch; nothing if it owns the dispatch already."""
    if dispatch is not None and dispatch.ownership.owner not in {"", store.instance}:
        body = DispatchTaken(dispatch.dispatch_id, dispatch.ownership.epoch + 1)
        yield store.draft(dispatch.turn.turn_id, now, body, Texts())


def summary_of(child: Child) -> ChildSummary:
    """Return the final state of a closed child, or the state that closing it now would give."""
    return ChildSummary(child.child_id, child.slot, child.step_idx, final_status_of(child), child.close_reason)


def final_status_of(child: Child) -> str:
    """Return `completed` or `failed`. Source: SX-47."""
    return COMPLETED_STATUS if child.integrated else FAILED_STATUS


def child_named(turn: Turn, child_id: ChildId) -> Child:
    """Return a child of the turn. Raises `UnknownChild`."""
    child = turn.children.get(child_id)
    if child is None:
        raise UnknownChild("the turn has no child with that child_id", metadata={"child_id": child_id})
    return child


class CloseChild:
    """The operation: a verdict on one child before the turn ends. Safe to repeat with the same verdict."""

    def __init__(self, rules: DispatchRules, dependencies: TurnDependencies, recovery: DispatchRecovery) -> None:
        self._rules = rules
        self._deps = dependencies
        self._find, self._restore, self._take_over = recovery.find, recovery.restore, recovery.take_over

    async def __call__(self, request: CloseChildRequest) -> ChildSummary:
        """Close the child.

        Raises:
            UnknownChild, ChildClosed (still running, or closed with another verdict), RunsElsewhere, RecordConflict,
            StoreUnavailable.
        """
        turn = await self._find(request.surface_token)
        # A child that is not known here may have run at another sidecar, or its opening was confirmed late.
        if request.integration.child_id not in turn.children:
            await self._restore(turn)
        child = child_named(turn, request.integration.child_id)
        if turn.runs_elsewhere(child.dispatch_id):
            await self._restore(turn)  # the owner in memory may be outdated; the record has the present one
            child = child_named(turn, child.child_id)
            if turn.runs_elsewhere(child.dispatch_id):
                raise RunsElsewhere("another sidecar runs the child's dispatch; close it there, or end the turn here")
        if child.log.state is not ExecutionState.CLOSED:
            turn.refuse_if_over()
            child.integrate_for_parent(request.integration, self._deps.clock.now())
        elif is_contradicted(child, request.integration.verdict) or child.verdict not in {None, request.integration}:
            raise ChildClosed(
                "the child was closed with another verdict, or at the end of the turn",
                metadata={"child_id": child.child_id, "close_reason": child.close_reason},
            )
        # Shielded: a client that disconnects must not leave a verdict that only this process knows.
        await shield_until_done(self._deps.spawner, self._save(turn, child), f"close {child.child_id}")
        return summary_of(child)

    async def _save(self, turn: Turn, child: Child) -> None:
        """Record the events of a closed child, together with all unconfirmed facts of its dispatch."""
        deps, now, dispatch_id = self._deps, self._deps.clock.now(), child.dispatch_id
        # After a failed append the events are in a draft already, and a repeated request only appends that draft again.
        if child.waits_for_a_fact:
            values = list[Values]()
            body = ChildClosedFact(dispatch_id, (child.progress(now, values),))
            turn.happened(dispatch_id, [deps.store.draft(turn.turn_id, now, body, Texts(values=tuple(values)))])
        drafts = turn.in_front(dispatch_id)
        # Everything is recorded: an earlier append, or one of another call of the dispatch, has carried the events.
        if not turn.unconfirmed_marks(child):
            return
        dispatch = turn.dispatches.get(dispatch_id)
        until = deps.clock.monotonic() + self._rules.record_timeout.total_seconds()
        # The takeover first, in the same append: the record accepts events of a child only from the owner of its
        # dispatch.
        refused = await append_within(deps.store, [*taking(dispatch, deps.store, now), *drafts], until)
        if isinstance(refused, RecordConflict):
            await self._restore(turn)
        elif refused is not None:
            # The append may have succeeded, and with it a takeover: `SettleOrphans` reads the record again.
            turn.note_unconfirmed()
        if refused is not None:
            raise refused
        turn.recorded(dispatch_id, drafts)
        if dispatch is not None and dispatch.ownership.owner:
            dispatch.ownership.taken(deps.store.instance)
            self._take_over.continue_own(turn)
