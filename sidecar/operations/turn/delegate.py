"""Delegation: a running sub-agent asks another sub-agent of the turn to do part of its work.

Delegation is off by default. Each request is checked against what the sidecar knows about the child, never against the
child's own claims. A delegated child is recorded before it starts and runs like any other child. The sidecar closes it
in every case: when it has finished, and when the waiting attempt ends. Source: SX-14 .. SX-17, TN-101, DESIGN section
5.
"""

import asyncio
from datetime import timedelta

from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.outcomes import CallOutcome, Usage
from sidecar.core.dispatching.plan import PlannedCall, plan_dispatch
from sidecar.core.dispatching.slot_queues import QueuedCall
from sidecar.core.errors import DelegationRefused, FieldProblem, GrantSpent, InvalidRequest, SubagentsError
from sidecar.core.executing.delegation import (
    DelegationContext,
    DelegationRefusal,
    RemainingBudget,
    delegation_refusal,
    narrowed_permissions,
)
from sidecar.core.executing.events import SIDECAR
from sidecar.core.identifiers import CallId, ChildId
from sidecar.core.journal.facts import ChildNoted, DelegationSettled
from sidecar.core.journal.marks import Values, What
from sidecar.core.journal.texts import Texts
from sidecar.operations.first_result import shield_until_done
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.requests import Integration, Verdict
from sidecar.operations.turn.child.call_context import CallContext
from sidecar.operations.turn.child.delegated_call import DelegatedCall
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.child.drain import drain
from sidecar.operations.turn.child.open_child import NewChild, make_delegated_child, opened_later
from sidecar.operations.turn.child.run_child import RunChild
from sidecar.operations.turn.child.stop_child import stop_child
from sidecar.operations.turn.spending import Spending
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.ending import EndStage
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turns
from subagents_errors import CallFailure


class Delegate:
    """The operation. It is not idempotent: each request creates another child."""

    def __init__(self, dependencies: TurnDependencies, turns: Turns, run_child: RunChild, spending: Spending) -> None:
        self._deps, self._spending = dependencies, spending
        self._turns = turns
        self._run_child = run_child
        self._calls: dict[ChildId, DelegatedCall] = {}  # running delegations, by the child that was delegated to

    async def __call__(
        self, grant: str, tool_name: str, arguments_json: str, time_left: timedelta | None = None
    ) -> CallOutcome:
        """Run the sub-agent behind `tool_name` for the child that the grant belongs to; return its result.

        Args:
            grant: of the running attempt.
            tool_name: exactly as on the turn's surface, e.g. `ask_rewards`.
            arguments_json: must fit that sub-agent's schema.
            time_left: until the caller's deadline; None if it set none.

        Raises:
            GrantInvalid, GrantSpent, InvalidRequest, StoreUnavailable.
            DelegationRefused: `reason` in its metadata is one of `DelegationRefusal`.
        """
        parent = self._deps.grants.claim(grant).child
        parent_call = self._context_of(parent)
        try:
            call, new = self._accept(parent, parent_call, tool_name, arguments_json, time_left)
        except (DelegationRefused, InvalidRequest) as refused:
            # Only a note in memory: a child that repeats a refused request must not cause an append for each.
            self._note_refusal(parent, tool_name, refused)
            raise
        try:
            # Shielded: the child's step number and its slots are reserved, and the child must be closed in any case. A
            # cancelled caller therefore stops the delegation, but does not stop its task.
            work = self._execute(parent, new, call)
            outcome = await shield_until_done(self._deps.spawner, work, f"delegated {new.child.child_id}")
        except asyncio.CancelledError:
            call.delegation.cancel(CallFailure.CALL_CANCELLED)  # the caller no longer waits
            raise
        # The attempt may have ended meanwhile: then its grant no longer permits the answer.
        self._deps.grants.claim(grant)
        return outcome

    def _context_of(self, parent: Child) -> CallContext:
        """Return the context of the call that `parent` executes. Raises `GrantSpent` once it is stopped or over."""
        turn = self._turns.known(parent.log.run_id)
        # Look among the delegations first: a delegated child also has a `dispatch_id`, but that dispatch may still run
        # when the delegated call is over.
        parent_call: CallContext | None = self._calls.get(parent.child_id)
        if parent_call is None and turn is not None:
            parent_call = turn.dispatches.get(parent.dispatch_id)
        if (
            parent_call is None
            or parent_call.turn.ending.stage is not EndStage.OPEN
            or parent_call.stop_of(parent.call_id).settled
        ):
            raise GrantSpent("the attempt that this grant was for is over; stop delegating")
        return parent_call

    def _accept(
        self, parent: Child, parent_call: CallContext, tool_name: str, arguments_json: str, time_left: timedelta | None
    ) -> tuple[DelegatedCall, NewChild]:
        """Make every check that can refuse the delegation, then reserve its step number and its slots in the turn.

        There is no await between checks and reservation: two concurrent requests cannot both take the last free slot
        or budget.
        """
        refusal = delegation_refusal(parent.contract)
        if refusal is not None:
            raise _refused(refusal)
        turn, ledger, child_id = parent_call.turn, parent.ledger, ChildId(self._deps.ids.new("child"))
        planned = self._planned(parent_call, child_id, tool_name, arguments_json)
        if self._spending.limits and self._spending.refusal(turn, planned):
            raise _refused(DelegationRefusal.COST_BUDGET)
        ends_at = self._ends_at(parent, parent_call, time_left)
        delegating = DelegationContext(parent.child_id, parent.contract, self._remaining_budget(parent, ends_at))
        # The child's contract: permissions, time limits and budgets are at most the rest that the parent has.
        contract = narrowed_permissions(delegating, planned.tool, planned.step_idx, planned.request)
        if isinstance(contract, DelegationRefusal):
            raise _refused(contract)
        lenders = _lenders(parent, parent_call)
        queued = QueuedCall(child_id, group=parent.child_id, parallel=1, boundaries=contract.ownership)
        # `start_beside` starts the call without a place in the queue; it may use the slots that its lenders hold. It is
        # the last check, because it already takes the slots; a refusal after it would have to give them back.
        if len(ledger.running) >= turn.surface.fan_out_cap or not turn.queues.start_beside(queued, lenders):
            raise _refused(DelegationRefusal.BUSY)
        turn.take_steps(1)
        call = DelegatedCall(planned, context=parent_call, parent=parent, settle_at=ends_at, lenders=lenders)
        ledger.delegate(child_id, call.delegation)
        self._calls[child_id] = call
        return call, make_delegated_child(parent, parent_call, planned, contract)

    def _planned(self, parent_call: CallContext, child_id: ChildId, tool_name: str, arguments_json: str) -> PlannedCall:
        """Return the call of a tool of the bound surface, with checked arguments."""
        turn = parent_call.turn
        plan = plan_dispatch(
            turn.surface, (ToolCall(CallId(child_id), tool_name, arguments_json),), turn.next_step, places=1
        )
        if plan.run:
            return plan.run[0]
        if plan.settled[0].reason is CallFailure.UNKNOWN_TOOL:
            raise _refused(DelegationRefusal.NOT_BOUND)
        raise InvalidRequest(
            "the arguments cannot be used", fields=[FieldProblem("arguments_json", plan.settled[0].hint)]
        )

    def _ends_at(self, parent: Child, parent_call: CallContext, time_left: timedelta | None) -> float:
        """Return when the caller stops waiting, by the event loop's clock."""
        # `wall_clock_at`: the end of the contract's time for all attempts together, also by the event loop's clock.
        bounds = [parent.ends_at, parent_call.settle_at]
        if parent.wall_clock_at is not None:
            bounds.append(parent.wall_clock_at)
        if time_left is not None:
            bounds.append(self._deps.clock.monotonic() + time_left.total_seconds())
        return min(bounds)

    def _remaining_budget(self, parent: Child, ends_at: float) -> RemainingBudget:
        """Return what the delegated child may use: the rest of its parent's time and budgets."""
        now, wall_clock_at = self._deps.clock.monotonic(), parent.wall_clock_at
        return RemainingBudget(
            time_ms=int((ends_at - now) * 1000),
            wall_clock_ms=None if wall_clock_at is None else int((wall_clock_at - now) * 1000),
            tool_calls=parent.ledger.tool_calls_left,
            tokens=parent.ledger.tokens_left,
            delegations=parent.ledger.made,  # the number so far, not the rest
        )

    async def _execute(self, parent: Child, new: NewChild, call: DelegatedCall) -> CallOutcome:
        """Open, run, integrate and close the delegation; nothing of it runs after the return."""
        child = new.child
        # The inputs of the parent's attempts, for replays; None if the settings do not record them.
        if parent.frames is not None:
            parent.frames.delegating(child.child_id)
        try:
            await self._open(parent, new, call)
            outcome = await self._run(child, call)
            data = child.data
            # Before the close, which waits for the store: meanwhile the parent may end or delegate again, and must
            # already know about sent effects and withheld (`barred`) data.
            parent.add_below(
                outcome.usage or Usage(),
                barred=data.barred_anywhere,
                sent=data.effects_sent,
                unknown=data.effects_unknown,
            )
            await self._close(child, call)
            if data.effects_unknown:
                # The effect may have happened. If the parent continued, it could delegate again, and a new child would
                # repeat the effect under a new key.
                stop_child(call.turn, parent, CallFailure.EFFECT_UNKNOWN)
            return outcome
        finally:
            if parent.frames is not None:
                used = None if child.outcome is None else child.outcome.usage
                barred, sent, unknown = child.data.barred_anywhere, child.data.effects_sent, child.data.effects_unknown
                parent.frames.delegated(child.child_id, used, barred=barred, sent=sent, unknown=unknown)
            # Also if the record refused the opening: a call that stays would block its slots until the turn ends.
            self._calls.pop(child.child_id, None)
            parent.ledger.delegated(child.child_id)
            call.turn.queues.leave(child.child_id)
            call.end()

    async def _run(self, child: Child, call: DelegatedCall) -> CallOutcome:
        """Run the child; return its outcome, which is durable."""
        clock = self._deps.clock
        self._run_child(child, call.planned, call, call.settled, now=clock.now(), began=clock.monotonic())
        await drain(call, self._deps, call.give_up)
        # `drain` returns early if another drain was started meanwhile; that one then takes the later steps.
        outcome = await call.finished.wait()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _open(self, parent: Child, new: NewChild, call: DelegatedCall) -> None:
        """Record the parent's request and the new child in one append, before anything starts. Source: SX-3, SX-16.

        The parent's request is an event that has happened even if the child cannot be opened. It is therefore a
        separate fact, which is repeated until it is confirmed; the opening is not.
        """
        turn, store, now, child = call.turn, self._deps.store, self._deps.clock.now(), new.child
        parent.note(now, What.DELEGATED, child.child_id, child.slot, child.step_idx)
        values = list[Values]()  # `progress` appends the values of its events
        noted = ChildNoted(call.dispatch_id, (parent.progress(now, values),))
        happened = [store.draft(turn.turn_id, now, noted, Texts(values=tuple(values)))]
        opening = store.draft(turn.turn_id, now, *opened_later(call.dispatch_id, [new]))
        # Earlier facts that are not confirmed go first: events of a child are numbered, and the record refuses a gap.
        before = turn.in_front(call.dispatch_id)
        # Registered before the append. If the append is not confirmed, the next append of the dispatch repeats exactly
        # this draft, which the record recognises by its salt.
        turn.happened(call.dispatch_id, happened)
        refused = await append_within(store, (*before, *happened, opening), call.record_by, call.deadlines)
        if refused is not None:
            turn.note_unconfirmed()
            raise refused
        turn.recorded(call.dispatch_id, (*before, *happened))
        turn.keep_child(child)

    async def _close(self, child: Child, call: DelegatedCall) -> None:
        """Integrate the child, which also closes it. Facts that cannot be recorded now join the next append.

        Source: SX-25, SX-29.
        """
        turn, store, now, values = call.turn, self._deps.store, self._deps.clock.now(), list[Values]()
        child.integrate(Integration(child.child_id, Verdict.AUTOMATIC), now, SIDECAR)
        body = DelegationSettled(call.dispatch_id, (child.progress(now, values),))
        turn.happened(call.dispatch_id, [store.draft(turn.turn_id, now, body, Texts(values=tuple(values)))])
        drafts = turn.in_front(call.dispatch_id)
        if await append_within(store, drafts, call.record_by, call.deadlines) is None:
            turn.recorded(call.dispatch_id, drafts)
        else:
            self._deps.recorder.anomaly("close_unrecorded", child.child_id)

    def _note_refusal(self, parent: Child, tool_name: str, refused: SubagentsError) -> None:
        """Note the refusal in the log of the parent. Source: SX-16, SX-39."""
        reason = refused.metadata.get("reason", refused.reason)
        parent.note_repeatable(self._deps.clock.now(), What.DELEGATION_REFUSED, tool_name[:64], str(reason))


def _lenders(parent: Child, parent_call: CallContext) -> tuple[str, ...]:
    """Return the queue keys of all calls that wait for this delegation.

    A waiting call lends the slots and data that it holds: without that, a delegation that needs one of them would wait
    for its own caller.
    """
    if isinstance(parent_call, DelegatedCall):
        return (*parent_call.lenders, parent.child_id)
    return (parent_call.queue_keys[parent.call_id],) if isinstance(parent_call, LiveDispatch) else ()


def _refused(why: DelegationRefusal) -> DelegationRefused:
    return DelegationRefused(f"the delegation is refused: {why}", metadata={"reason": why.value})
