"""Begins dispatches: runs the sub-agent calls of one model response.

`begin` makes every check that can refuse the dispatch; after that each call gets exactly one outcome. The work belongs
to the process and not to the RPC that began it, so a broken connection does not stop it.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from sidecar.core.dispatching.daily_limits import NO_LIMITS, CallsLeft
from sidecar.core.dispatching.intents import IntentReport, newly_called
from sidecar.core.dispatching.plan import DispatchPlan, plan_dispatch
from sidecar.core.dispatching.routing_record import distinct
from sidecar.core.dispatching.slot_queues import QueuedCall
from sidecar.core.errors import (
    BindingDigestMismatch,
    DeadlineTooShort,
    DispatchIdReused,
    InternalError,
    PriorContextMissing,
    RecordConflict,
    SubagentsError,
    TooManyDispatches,
)
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.making.settling import settled_call, settled_together
from sidecar.operations.history.episode_facts import EpisodeFacts
from sidecar.operations.record.timed_access import append_within
from sidecar.operations.requests import DispatchRequest
from sidecar.operations.rules import DispatchRules
from sidecar.operations.trace_context import NO_TRACE, TraceContext
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.child.open_child import make_child
from sidecar.operations.turn.daily_calls import DailyCalls
from sidecar.operations.turn.execute_dispatch import ExecuteDispatch
from sidecar.operations.turn.find_turn import FindTurn
from sidecar.operations.turn.limited_plan import limited_plan
from sidecar.operations.turn.restore_turn import RestoreTurn
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.concurrency_limit import DispatchPlaces
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turn, Turns
from sidecar.operations.turn.state.opening_records import opening_of
from sidecar.operations.turn.state.tracing import DispatchTrace
from sidecar.operations.turn.takeover import TakeOver

if TYPE_CHECKING:
    from sidecar.operations.turn.continuing import ContinueWork


class DispatchHandle(msgspec.Struct, frozen=True):
    """A dispatch whose events can be streamed. `attached`: whether an earlier request began it."""

    dispatch: LiveDispatch
    attached: bool


class DispatchRecovery(msgspec.Struct, frozen=True):
    """The operations that find a turn, update it from the record, and continue its dispatches."""

    find: FindTurn
    restore: RestoreTurn
    take_over: TakeOver
    continue_work: "Callable[[], ContinueWork]"


async def reload_lost(turn: Turn, dispatch_id: DispatchId, recovery: DispatchRecovery) -> None:
    """If another sidecar has taken a dispatch over, wait until its attempts here end, and read the record again."""
    known = turn.dispatches.get(dispatch_id)
    if known is not None and known.ownership.conflict is not None:
        await known.finished.wait()
        await recovery.restore(turn)


async def attached(dispatch: LiveDispatch, recovery: DispatchRecovery) -> DispatchHandle:
    """Return a handle of an existing dispatch, and ensure that this process or another one completes it."""
    refused = await dispatch.wait_for_opening()
    if refused is not None:
        raise refused
    recovery.take_over(dispatch)
    return DispatchHandle(dispatch, attached=True)


class DispatchCalls:
    """Begins dispatches. A repeated `dispatch_id` with equal contents returns the dispatch of the first request."""

    def __init__(
        self,
        rules: DispatchRules,
        dependencies: TurnDependencies,
        recovery: DispatchRecovery,
        facts: EpisodeFacts,
        execute: ExecuteDispatch,
        turns: Turns,
        daily: DailyCalls,
        places: DispatchPlaces,
    ) -> None:
        self._rules, self._deps, self._recovery, self._facts = rules, dependencies, recovery, facts
        self._daily, self._spending = daily, execute.spending
        self._execute, self._turns, self.places = execute, turns, places

    @property
    def running(self) -> int:
        """The number of running dispatches."""
        return self.places.taken

    async def begin(
        self, request: DispatchRequest, time_left: timedelta | None, trace: TraceContext = NO_TRACE
    ) -> DispatchHandle:
        """Begin a dispatch, or find the dispatch that an equal request began.

        Args:
            request: well-formed; whether the turn allows it is checked here.
            time_left: until the client's deadline; None if it set none.
            trace: the client's trace context; ignored for a repeated request.

        Returns when the children that start immediately are recorded. Raises `RecordConflict` (concurrent use),
        `SurfaceTokenInvalid`, `SurfaceTokenExpired`, `BindingDigestMismatch`, `DispatchIdReused`, `TurnEnded`,
        `TooManyDispatches`, `PriorContextMissing`, `DeadlineTooShort`, `AdmissionRefused`, `StoreUnavailable`.
        """
        turn = await self._recovery.find(request.surface_token)
        await reload_lost(turn, request.dispatch_id, self._recovery)
        if self._spending.reads_days:  # here, because the checks in `_accept` must not wait
            await self._spending.read(turn)
        begin = self._begin_counted if turn.surface.daily_limits else self._begin
        handle = await begin(request, turn, time_left, trace)
        if isinstance(handle, RecordConflict):
            # Another process opened the dispatch or used the turn. One read of the record shows how; if the second try
            # conflicts as well, the turn is in use at this moment and the client has to repeat the request.
            await self._recovery.restore(turn)
            handle = await begin(request, turn, time_left, trace)
        if isinstance(handle, RecordConflict):
            raise handle
        return handle

    async def _begin_counted(
        self, request: DispatchRequest, turn: Turn, time_left: timedelta | None, trace: TraceContext
    ) -> DispatchHandle | RecordConflict:
        """Begin a dispatch on a surface with daily limits; calls over a limit of the principal are refused."""
        tools = (turn.surface.by_name.get(call.tool_name) for call in request.calls)
        limits = turn.surface.daily_limits
        limited = {tool.slot: limits[tool.slot] for tool in tools if tool is not None and tool.slot in limits}
        if not limited or request.dispatch_id in turn.dispatches:
            return await self._begin(request, turn, time_left, trace)
        # `_begin` returns when the children are recorded. The lock is held until then, so the next dispatch of this
        # user counts these calls.
        async with self._daily.counted(turn.claims.principal, request.dispatch_id, limited) as left:
            return await self._begin(request, turn, time_left, trace, left)

    async def _begin(
        self,
        request: DispatchRequest,
        turn: Turn,
        time_left: timedelta | None,
        trace: TraceContext,
        left: CallsLeft = NO_LIMITS,
    ) -> DispatchHandle | RecordConflict:
        known = turn.dispatches.get(request.dispatch_id)  # first: a repeated request is never refused by a limit
        if known is not None:
            return await self._attach(known, request)
        seconds = self._seconds_for(request, time_left)  # may refuse, so nothing is reserved yet
        dispatch = self._accept(request, turn, trace, left)
        # Half of the margin is for recording the outcomes of the calls that are stopped last, half for sending them.
        dispatch.settle_within(seconds, self._rules.delivery_margin.total_seconds() / 2)
        self._deps.spawner.spawn(self._open_and_execute(dispatch), f"dispatch {request.dispatch_id}")
        refused = await dispatch.wait_for_opening()
        if isinstance(refused, RecordConflict):
            return refused
        if refused is not None:
            raise refused
        return DispatchHandle(dispatch, attached=False)

    async def _attach(self, dispatch: LiveDispatch, request: DispatchRequest) -> DispatchHandle:
        if msgspec.structs.replace(request, surface_token=dispatch.request.surface_token) != dispatch.request:
            raise DispatchIdReused(
                "dispatch_id names a dispatch with other contents; make a new id for each model response",
                metadata={"dispatch_id": request.dispatch_id},
            )
        return await attached(dispatch, self._recovery)

    def _seconds_for(self, request: DispatchRequest, time_left: timedelta | None) -> float:
        """Return how long the calls may run: the time left, minus the time to deliver the outcomes."""
        bounds = [self._rules.join_timeout]
        if request.join.timeout is not None:
            bounds.append(request.join.timeout)
        if time_left is not None:
            bounds.append(time_left - self._rules.delivery_margin)  # later outcomes would reach no client
        seconds = min(bounds)
        if seconds < self._rules.admission.min_remaining_time:
            margin = self._rules.delivery_margin.total_seconds()
            raise DeadlineTooShort(
                f"too little time is left for the calls: set a deadline of well over {margin} s",
                metadata={"limit": "time_left"},
            )
        return seconds.total_seconds()

    def _accept(self, request: DispatchRequest, turn: Turn, trace: TraceContext, left: CallsLeft) -> LiveDispatch:
        """Make every check that can refuse a dispatch, then reserve its place in the turn.

        There is no await in this function: else a concurrent dispatch could pass the same checks and exceed the cap.
        """
        turn.refuse_if_over()
        surface = turn.surface
        if request.binding_digest != surface.binding_digest:
            raise BindingDigestMismatch(
                "binding_digest is not that of the bound surface; use the one that BindTurn returned, or bind again",
                metadata={"expected": surface.binding_digest},
            )
        if len(turn.dispatches) >= surface.max_dispatches:
            raise TooManyDispatches(
                f"the turn has used its {surface.max_dispatches} dispatches; end it",
                metadata={"limit": str(surface.max_dispatches)},
            )
        self.places.refuse_if_taken(surface, turn.claims.principal, request.calls)
        free = max(0, surface.fan_out_cap - turn.queues.occupied)  # the cap limits the turn, not one dispatch
        plan = plan_dispatch(surface, request.calls, turn.next_step, free)
        if left or self._spending.limits:
            plan = limited_plan(plan, left, partial(self._spending.refusal, turn), self._deps.recorder)
        intents = self._intents(request, turn, plan)
        traced = DispatchTrace(trace, self._deps.tracing.dispatch(trace, request, turn.claims))
        clock, recorder = self._deps.clock, self._deps.recorder
        dispatch = LiveDispatch(
            request, turn, plan, intents, clock=clock, recorder=recorder, rules=self._rules, trace=traced
        )
        turn.accept(dispatch)  # reserves the steps of its calls, so that no other dispatch uses them
        turn.queues.enter(_queued_calls(dispatch))  # all slots at once: queue order is emission order
        self.places.enter(dispatch)
        self._turns.begins_work(turn)
        return dispatch

    def _intents(self, request: DispatchRequest, turn: Turn, plan: DispatchPlan) -> IntentReport:
        """Count intents, and require `prior_context` on a switch of sub-agents. Source: TN-12, TN-16, PC2-T-13."""
        called = distinct(plan.called)
        new = newly_called(called, turn.claims.previous)
        missing = not request.prior_context.strip() and not set(new).issubset(plan.briefed)
        if missing:
            self._deps.recorder.prior_context_missing(turn.surface.orchestrator.definition.id)
            if self._rules.strict_prior_context:
                raise PriorContextMissing(
                    "the calls name sub-agents that the last dispatching turn did not call: send prior_context "
                    "in the request, or with each of these calls"
                )
        return IntentReport(max(request.declared_intent_count, plan.declared), len(called), bool(new), missing)

    async def _open_and_execute(self, dispatch: LiveDispatch) -> None:
        """Record the children that start immediately, then start all calls. A refusal undoes the acceptance."""
        try:
            children = await self._put_on_record(dispatch)  # before any call starts: a crash must not hide a call
        except BaseException as error:  # also a cancellation: clients that wait for the opening must be answered
            dispatch.withdraw(error if isinstance(error, SubagentsError) else InternalError("try again"))
            self._release(dispatch)
            if isinstance(error, SubagentsError):
                return
            raise
        try:
            dispatch.open(partial(self._execute.begin, dispatch, children))
            await self._execute(dispatch)
        finally:
            self._release(dispatch)

    async def _put_on_record(self, dispatch: LiveDispatch) -> Mapping[CallId, Child]:
        """Record the opening and the refused calls; return the children that start now. Raises if it is refused."""
        turn, deps = dispatch.turn, self._deps
        refusals = await self._recovery.continue_work().redeem(dispatch) if dispatch.calls.answers else []
        ready = [each for each in dispatch.plan.run if dispatch.queue_keys[each.call.call_id] in turn.queues.running]
        loop_time, wall_clock = deps.clock.monotonic(), deps.clock.now()
        new = [make_child(dispatch, each, loop_time, deps.ids) for each in ready]
        body, texts = opening_of(dispatch, loop_time, [each.start for each in new], [each.texts for each in new])
        drafts = [deps.store.draft(turn.turn_id, wall_clock, body, texts)]
        if dispatch.plan.settled or refusals:
            settled = [settled_call(each, place) for place, each in dispatch.plan.settled.items()]
            settled += [settled_call(each, dispatch.calls.places[each.call_id]) for each in refusals]
            drafts.append(deps.store.draft(turn.turn_id, wall_clock, *settled_together(dispatch.dispatch_id, settled)))
        refused = await append_within(deps.store, drafts, dispatch.record_by, dispatch.deadlines)
        if refused is not None:
            # The append may still succeed after its time limit. The end of the turn then reads the record and closes
            # the children that exist there.
            turn.note_unconfirmed()
            raise refused
        turn.note_claims(recorded=not deps.store.shared)  # if shared, other sidecars may append other claims
        children = {each.child.call_id: each.child for each in new}
        for child in children.values():
            turn.keep_child(child)  # after the append: a child in memory is a child on record
        called = [slot for each in turn.dispatches.values() for slot in each.plan.called]
        self._facts.dispatched(turn.claims.episode_id, distinct(called))
        return children

    def _release(self, dispatch: LiveDispatch) -> None:
        self.places.leave(dispatch)
        self._turns.ends_work(dispatch.turn)


def _queued_calls(dispatch: LiveDispatch) -> list[QueuedCall]:
    keys, parallel = dispatch.queue_keys, dispatch.request.join.max_parallel or dispatch.turn.surface.fan_out_cap
    run = dispatch.plan.run
    return [QueuedCall(keys[each.call.call_id], dispatch.dispatch_id, parallel, each.tool.ownership) for each in run]
