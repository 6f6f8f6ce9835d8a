"""Restores a turn from the record: after a restart, at another replica, or after a lost answer.

The record decides: state in memory that contradicts it is dropped.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import from_json
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.plan import outcomes_without_run, plan_dispatch
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.contract import contract_from_json
from sidecar.core.executing.events import ATTEMPT, CLOSED, COMPLETED_STATUS
from sidecar.core.executing.idempotency import recorded_effects
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn
from sidecar.core.identifiers import CallId, ChildId, DispatchId
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.dispatch_stages import Custody, DispatchStage
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.opening_records import request_from_json
from sidecar.operations.turn.state.turn_ends import ChildSummary, TurnClosed
from subagents_errors import CallFailure

EVENTS_PER_OWNER = 1_000_000
"""Sequence numbers for one owner of a dispatch. A takeover begins the next range, so that listeners notice a gap."""


def events_of_owner(epoch: int) -> int:
    """Return the sequence number after which the owner of `epoch` counts.

    Each epoch has two ranges: one for the state restored from the record, one for the execution after a takeover.
    """
    return 2 * epoch * EVENTS_PER_OWNER


class RestoreTurn:
    """Reads a turn from the store and merges it into the one that is known here."""

    def __init__(self, rules: DispatchRules, dependencies: TurnDependencies) -> None:
        self._rules = rules
        self._deps = dependencies

    async def __call__(self, turn: Turn) -> StoredTurn | None:
        """Merge the record of `turn` into the state in memory, and return the record. Raises `StoreUnavailable`."""
        seconds = self._rules.record_timeout.total_seconds()
        # The merge runs without an await after this read. If a task changed the turn in between, the merge could
        # replace newer state with the older state that was read.
        stored = await read_within(self._deps.store.turn(turn.turn_id), seconds)
        if isinstance(stored, StoreUnavailable):
            raise stored
        if stored is not None:
            self._merge(turn, stored)
        return stored

    def _merge(self, turn: Turn, stored: StoredTurn) -> None:
        outcomes = {each.child_id: each for dispatch in stored.dispatches for each in dispatch.outcomes}
        # An outcome may be on record before the task that appended it has continued. That task sets the outcome itself,
        # so the merge must not replace it.
        settling = {child.child_id for child in turn.children.values() if turn.settles_unconfirmed(child)}
        # The salts come before the children: a draft of this process that is recorded is then no longer unconfirmed,
        # and a child is not taken for being ahead of the record.
        turn.found_on_record(stored.salts)
        if stored.dispatches:
            newest = from_json(stored.dispatches[-1].opened.claims_json, SurfaceClaims)
            turn.note_claims(recorded=newest == turn.claims and not self._deps.store.shared)
        # Computed before anything is merged: `_merge_dispatch` changes the ownership that `_is_lost` reads.
        lost = {each.opened.dispatch_id for each in stored.dispatches if self._is_lost(turn, each)}
        effects = recorded_effects(stored.children)
        for child in stored.children:
            is_ours = child.opened.dispatch_id not in lost
            outcome, revisable = outcomes.get(child.opened.child_id), child.opened.child_id not in settling
            restored = self._merge_child(turn, child, outcome, may_be_ahead=is_ours, may_be_revised=revisable)
            sent = effects.get(child.opened.child_id)
            if restored is not None and sent is not None:
                # Not for a kept child, which has counted its effects itself.
                restored.data.count_below(sent.sent, sent.unknown, barred=False)
        for dispatch in stored.dispatches:
            self._merge_dispatch(turn, dispatch, stored)
        steps = [each.opened.step_idx for each in stored.children]
        steps += [each.opened.first_step + each.opened.calls - 1 for each in stored.dispatches]
        # A dispatch of another sidecar has reserved all of its steps, also those without a child yet. The next dispatch
        # here must begin after them, or the record refuses it.
        turn.count_steps_from(max((step + 1 for step in steps), default=0))
        if stored.ended is not None and stored.routing is not None and turn.ending.closed is None:
            closed = TurnClosed(tuple(_summary(each) for each in stored.children), stored.routing)
            turn.ending.found(closed, stored.ended.fingerprint)

    def _is_lost(self, turn: Turn, stored: StoredDispatch) -> bool:
        """Return whether a dispatch that ran here now belongs to another sidecar, or was dropped here."""
        known = turn.dispatches.get(stored.opened.dispatch_id)
        # Only work of this process can be lost to another one.
        if known is None or not known.ownership.here:
            return False
        given_up = known.ownership.custody is Custody.LOST and known.stage is DispatchStage.FINISHED
        return stored.owner != self._deps.store.instance or given_up

    def _merge_child(
        self, turn: Turn, stored: StoredChild, outcome: CallOutcome | None, *, may_be_ahead: bool, may_be_revised: bool
    ) -> Child | None:
        """Merge one child, and return it if it was restored.

        Unrecorded progress of a lost dispatch is dropped, because the new owner may repeat that work.
        """
        known = turn.children.get(stored.opened.child_id)
        if known is not None and may_be_ahead:
            if known.is_ahead_of(stored.events, turn.unconfirmed_marks(known)):
                # The record may contain a later revision of the outcome. A child that has no outcome yet gets it from
                # the task that appended it.
                if known.restored and known.outcome is not None and outcome is not None and may_be_revised:
                    known.revise(outcome)
                return None
            turn.give_up_progress(known)
        if known is not None and known.outcome is None:
            # The child may still run here although another sidecar owns it. Without its grants it can reach no data, so
            # it cannot cause effects beside the new owner's attempt.
            self._deps.grants.revoke_all_of(known.child_id)
        restored = restored_child(turn, stored, outcome)
        # Also a child that was unknown here. Its opening may have been recorded although the append got no answer; if
        # such a child were left out, the end of the turn could never close it.
        if restored is not None:
            turn.keep_child(restored)
        return restored

    def _merge_dispatch(self, turn: Turn, stored: StoredDispatch, of_turn: StoredTurn) -> None:
        known = turn.dispatches.get(stored.opened.dispatch_id)
        lost = self._is_lost(turn, stored)
        if known is not None:
            self._note_owner(known, stored)
            finished = known.stage is DispatchStage.FINISHED
            is_current = known.ownership.here or all(each in known.calls.outcomes.values() for each in stored.outcomes)
            if lost:
                # The tasks of the lost dispatch still end in their old object. A new object takes its place below, so
                # that late events of the old one reach no listener.
                turn.lose(known)
            # Listeners hold this object, and it already says what the record says.
            elif finished and is_current:
                return
            elif not finished:
                if not known.ownership.here:
                    self._fill(known, stored, of_turn)
                return
        # Unknown here, lost, or finished with outcomes that the record has revised since.
        dispatch = self._restored(turn, stored)
        turn.bring_back(dispatch)
        self._fill(dispatch, stored, of_turn)

    def _restored(self, turn: Turn, stored: StoredDispatch) -> LiveDispatch:
        """Return the recorded dispatch as one that another process executes."""
        opened, deps = stored.opened, self._deps
        request = request_from_json(opened.request_json, turn.token)
        plan = plan_dispatch(turn.surface, request.calls, opened.first_step, opened.places)
        dispatch = LiveDispatch(
            request,
            turn,
            plan,
            opened.intents,
            clock=deps.clock,
            recorder=deps.recorder,
            rules=self._rules,
            settle_by=opened.settle_by,
        )
        self._note_owner(dispatch, stored)
        # A listener may know sequence numbers of the former owner that never reached the record. A new range avoids
        # that an old and a new event share a number.
        dispatch.begin_events_after(events_of_owner(stored.epoch) + EVENTS_PER_OWNER)
        return dispatch

    def _note_owner(self, dispatch: LiveDispatch, stored: StoredDispatch) -> None:
        # Ownership by this process is not "elsewhere", even if nothing runs: closing a child takes its dispatch over.
        alive_elsewhere = stored.owner_alive and stored.owner != self._deps.store.instance
        dispatch.ownership.note(stored.owner, stored.epoch, alive_elsewhere=alive_elsewhere)

    def _fill(self, dispatch: LiveDispatch, stored: StoredDispatch, of_turn: StoredTurn) -> None:
        """Set the recorded outcomes; the last one finishes the dispatch."""
        children = _children_of(of_turn, stored.opened.dispatch_id)
        dispatch.calls.take_in({each.call_id: each for each in stored.outcomes}, children, stored.cancelled)
        if stored.settled and dispatch.stage is not DispatchStage.FINISHED:
            # Without an overhead: it was measured by the process that executed the dispatch, and that process has
            # reported it.
            dispatch.finish()


def restored_child(turn: Turn, stored: StoredChild, outcome: CallOutcome | None) -> Child | None:
    """Return a recorded child as a child in memory; None if the turn's surface does not have its slot."""
    opened = stored.opened
    tool = next((tool for tool in turn.surface.tools if tool.slot == opened.slot), None)
    if tool is None:
        return None
    log = ChildLog(opened.child_id, opened.turn_id, opened.slot, opened.step_idx)
    log.go_on_after(stored.events)
    closed = stored.events[-1] if stored.events and stored.events[-1].name == CLOSED else None
    details = closed.details() if closed else {}
    return Child(
        child_id=opened.child_id,
        call_id=opened.call_id,
        dispatch_id=opened.dispatch_id,
        step_idx=opened.step_idx,
        tool=tool,
        contract=contract_from_json(opened.context_json),
        contract_json=opened.context_json,
        principal=turn.claims.principal,
        log=log,
        outcome=outcome,
        # The event of an attempt may be lost with the sidecar that made it. Its number is not lost: the event of the
        # next attempt shows it.
        attempts=max([1, *(event.details()["number"] for event in stored.events if event.name == ATTEMPT)]),
        started_at=opened.opened_at,
        settled_at=stored.events[-1].time if outcome and stored.events else None,
        close_reason=str(details.get("close_reason", "")),
        integrated=details.get("final_status") == COMPLETED_STATUS,
        restored=True,
    )


def unfinished_outcomes(dispatch: LiveDispatch, children: Sequence[Child]) -> Iterator[CallOutcome]:
    """Yield the outcome that the end of the turn gives to each unfinished call."""
    child_of = {child.call_id: child for child in children}
    for planned in dispatch.plan.run:
        if planned.place in dispatch.calls.outcomes:
            continue
        child = child_of.get(planned.call.call_id)
        reason = CallFailure.EFFECT_UNKNOWN if child and child.data.effects_unknown else CallFailure.TURN_OVER
        outcome = outcomes_without_run(planned, Outcome.FAILED if child else Outcome.NOT_STARTED, reason)
        if child is not None:
            outcome = msgspec.structs.replace(outcome, child_id=child.child_id, attempts=child.attempts)
        yield outcome


def _children_of(turn: StoredTurn, dispatch_id: DispatchId) -> Mapping[CallId, ChildId]:
    return {
        child.opened.call_id: child.opened.child_id
        for child in turn.children
        if child.opened.dispatch_id == dispatch_id and child.opened.parent_child_id is None
    }


def _summary(stored: StoredChild) -> ChildSummary:
    closed = from_json(stored.events[-1].details_json)
    return ChildSummary(
        child_id=stored.opened.child_id,
        sub_agent_id=stored.opened.slot,
        step_idx=stored.opened.step_idx,
        final_status=closed["final_status"],
        close_reason=closed["close_reason"],
    )
