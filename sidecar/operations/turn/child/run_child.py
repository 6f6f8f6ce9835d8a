"""Runs children: attempts, checks, recorded outcome. Every failure is returned as an outcome."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from sidecar.core.dispatching.outcomes import Answer, Usage
from sidecar.core.dispatching.plan import PlannedCall
from sidecar.core.dispatching.result_checks import ResultCollector
from sidecar.core.executing.retries import Breaker, Breakers, BreakerState, RetryBudget, backoff_ceiling
from sidecar.core.identifiers import AttemptId
from sidecar.core.journal.facts import AttemptRepeated
from sidecar.core.journal.marks import Values, What, trimmed
from sidecar.core.journal.texts import Texts
from sidecar.operations.deadlines import Deadline
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ready_list import LaidOut, Refusal, Step
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.attempt_ends import (
    accepted_result,
    failure_of,
    fault_values,
    idle_timeout_failure,
    lost_with_sidecar,
)
from sidecar.operations.turn.child.attempt_outcomes import Over, Settlement, attempts_of, counted
from sidecar.operations.turn.child.call_context import CallContext, request_of
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.child.run_attempt import Attempt, AttemptEnd, BrokenReport, Quarantine, bounds_of
from sidecar.operations.turn.state.child import Child
from sidecar.policy.protocols import Runner
from subagents_errors import CallFailure

NOT_STOPPED: Final = FirstResult[CallFailure]()
"""A result that is never settled."""


class RunChild:
    """Runs children. All children share the limits of one attempt, the retry budget and the breakers."""

    def __init__(self, rules: DispatchRules, dependencies: TurnDependencies) -> None:
        """Begin with a full retry budget and closed breakers."""
        self.rules, self.dependencies = rules, dependencies
        # Each child gets an equal part of the limit: the outcomes of a full fan-out must fit into one message.
        share = rules.outcomes_bytes // rules.binding.fan_out_cap
        self.limits = replace(rules.results, total=min(rules.results.total, share))
        self.budget, self.breakers = RetryBudget(rules.retries), Breakers(rules.breaker)
        self.quarantine = Quarantine(dependencies.recorder, rules.cancel_grace.total_seconds())

    def __call__(
        self, child: Child, planned: PlannedCall, context: CallContext, over: Over, *, now: datetime, began: float
    ) -> None:
        """Start `child`, which is recorded as open. Does not wait.

        Its steps go to `context.ready`. `over` receives the outcome; `began` is `now` by the event loop's clock.
        """
        ChildRun(self, child, planned, context, over, began).start(now)


class ChildRun:
    """A running child: it makes attempts until the result of one is final.

    An attempt is a task that reads the runner. All other steps happen between attempts: at the end of an attempt, at
    a deadline of the dispatch, and when the drain has recorded the facts that must come first.
    """

    __slots__ = (
        *("_attempt", "_began", "_breaker", "_child", "_concluded", "_context", "_evidence", "_deps", "_over"),
        *("_pause", "_planned", "_runner", "_shared", "_spent", "_stop"),
    )

    def __init__(
        self, shared: RunChild, child: Child, planned: PlannedCall, context: CallContext, over: Over, began: float
    ) -> None:
        self._shared, self._deps = shared, shared.dependencies
        self._child, self._planned, self._context, self._over = child, planned, context, over
        self._began = began
        self._stop = context.stop_of(child.call_id)
        self._attempt: Attempt | None = None
        self._breaker: Breaker | None = None
        self._pause: tuple[Deadline, AttemptEnd] | None = None
        self._spent, self._evidence = Usage(), Answer()
        self._concluded = False

    def start(self, now: datetime) -> None:
        """Make the first attempt."""
        child, deps = self._child, self._deps
        child.begin(now, self._began, keep_frames=self._shared.rules.record_frames)
        self._stop.on_settled(self._stopped)  # before the first attempt: the call may be stopped already
        try:
            self._runner: Runner = deps.runners.runner_for(child.tool.card)
            lost = lost_with_sidecar(child, attempts_of(child)) if child.restored else None
            if lost is None or self._stop.settled:  # a cancelled call ends as cancelled, not as lost
                self._try(now, self._began)
            else:
                self._conclude(lost)
        except Exception as error:  # noqa: BLE001  a defect must not affect the siblings
            self._defect(error)

    # --- one attempt

    def _try(self, now: datetime, at: float) -> None:
        """Make an attempt, unless the call is stopped or the breaker is open. `at` is by the event loop's clock."""
        child, stopped = self._child, self._stop.how
        if stopped is not None:
            self._conclude(BrokenReport(stopped, "stopped before the attempt"))
            return
        # One breaker per host and slot: a slot that fails must not stop the other slots of its host.
        breaker = self._shared.breakers.of(self._runner.target, child.slot)
        if breaker.state is not BreakerState.CLOSED and not breaker.admit(at):
            _keep_refusal(child, "breaker")
            detail = f"the breaker of {self._runner.target} for {child.slot} is open"
            self._conclude(BrokenReport(CallFailure.RUNNER_BREAKER_OPEN, detail))
            return
        self._breaker = breaker
        attempt_id = AttemptId(self._deps.ids.new("attempt"))
        if child.attempts == 0:  # the fact that opened the child implies its first attempt
            child.begin_attempt(now, attempt_id)
            self._shared.budget.called(at)  # first attempts only: retries are a share of them
            self._run(attempt_id, at)
        else:  # a later attempt is recorded before it begins: a sidecar that takes over must count it
            self._context.ready.put(Step(child.call_id, partial(self._record_attempt, attempt_id)))

    def _record_attempt(self, attempt_id: AttemptId, now: datetime) -> LaidOut:
        """Return the fact of a further attempt, and the callback that makes the attempt once the fact is recorded."""
        child, turn, values = self._child, self._context.turn, list[Values]()
        if self._stop.settled:  # `_try` will conclude: the record accepts no further attempt after a cancellation
            self._tell_breaker(None, heard=False)  # returns the probe of a half-open breaker
            return LaidOut(lambda _, resumed_at: self._try(resumed_at, self._deps.clock.monotonic()))
        child.begin_attempt(now, attempt_id)
        body = AttemptRepeated(child.dispatch_id, (child.progress(now, values),))
        draft = self._deps.store.draft(turn.turn_id, now, body, Texts(values=tuple(values)))

        def resume(refused: Refusal, _: datetime) -> None:
            if refused is None:
                self._guarded(self._run, attempt_id, self._deps.clock.monotonic())
            else:
                self._tell_breaker(None, heard=False)
                self._conclude(BrokenReport(CallFailure.RECORD_UNAVAILABLE, "the attempt could not be recorded"))

        return LaidOut(resume, happened=draft)  # appended again until confirmed: `child` counts the attempt already

    def _run(self, attempt_id: AttemptId, at: float) -> None:
        child, context, shared, deps = self._child, self._context, self._shared, self._deps
        bounds = bounds_of(child, context.settle_at, at, shared.limits.silence)
        span = deps.tracing.attempt(child, context.trace, context.turn.claims.episode_id)
        ends_at = context.settle_at if bounds.timeout_at is None else bounds.timeout_at
        child.attempt_runs(span.context if span is not None else context.trace, ends_at)
        grant = deps.grants.mint(child, attempt_id)  # new for each attempt: an abandoned one must reach no data
        attempt = self._attempt = Attempt(
            attempt_id,
            self._runner,
            ResultCollector(child.tool.card.definition, shared.limits, partial(deps.recorder.text_changed, child.slot)),
            span,
            child=child,
            context=context,
            quarantine=shared.quarantine,
            frames=None if child.frames is None else child.frames.begin(attempt_id, child.attempts, at),
            on_end=self._attempt_ended,
        )
        stopped = self._stop.how
        if stopped is not None:
            attempt.end(BrokenReport(stopped, "stopped"))
        else:
            attempt.start(request_of(child, self._planned, context, attempt_id, grant, at), bounds, deps.spawner)

    def _attempt_ended(self, how: AttemptEnd) -> None:
        """Process the attempt's result. From now on its sub-agent has no access to data."""
        attempt, self._attempt = self._attempt, None  # a stop from now on must not end this attempt again
        child, deps = self._child, self._deps
        assert attempt is not None  # noqa: S101  for the type checker
        try:
            if attempt.reports:
                child.reported(attempt.reports)
            used = deps.grants.revoke(attempt.attempt_id)
            end, usage = accepted_result(child, how, self._stop.how, attempt.collector), attempt.collector.usage
            if attempt.span is not None:
                attempt.span.ended(failure_of(end), usage)
            if usage is not None:
                self._spent += counted(child, usage, self._context.turn, deps.recorder)
            if isinstance(end, BrokenReport):
                # What the last failed attempt that sent anything had sent: it is recorded with the failure of the call.
                evidence = attempt.collector.evidence()
                self._evidence = self._evidence if evidence.is_empty else evidence
            heard = attempt.heard or used
            # A host that sent nothing and used no grant may be unreachable: its timeout counts as a transport fault.
            if not heard:
                end = idle_timeout_failure(end, self._runner.target)
            self._tell_breaker(end, heard=heard)
            if child.ledger.running:
                # Delegations end first: no retry may run beside them, and their effects decide whether there is one.
                decide = partial(self._guarded, self._decide, end)
                child.ledger.end_delegations(CallFailure.CALL_CANCELLED, decide)
            else:
                self._decide(end)
        except Exception as error:  # noqa: BLE001  a defect must not cost the siblings anything
            self._defect(error)

    def _tell_breaker(self, end: AttemptEnd | None, *, heard: bool) -> None:
        """Report to the breaker whether the host answered, and log a fault. `end` None: the attempt had no result."""
        breaker, self._breaker = self._breaker, None
        if breaker is None:
            return
        fault = end.fault if isinstance(end, BrokenReport) else None
        if fault is None:
            breaker.succeeded() if heard else breaker.abandoned(self._deps.clock.monotonic())
            return
        breaker.failed(self._deps.clock.monotonic())
        slot, recorder = self._child.slot, self._deps.recorder
        message = f"{slot} cannot be run, {fault.in_words()}: {fault.remedy}"
        recorder.anomaly("runner_unreachable", message, {"sub_agent_id": slot, **fault.details()})
        if breaker.state is BreakerState.OPEN:
            recorder.anomaly("breaker_opened", f"{slot}, {fault.in_words()}")

    # --- between attempts

    def _decide(self, end: AttemptEnd) -> None:
        """Schedule another attempt after a pause, or accept the end. Source: TN-24, SX-28, PC2-FR-12e."""
        at = self._next_attempt_at() if isinstance(end, BrokenReport) and end.transient else None
        if at is None:
            self._conclude(end)
        else:
            self._pause = self._context.deadlines.at(at, self._guarded, self._repeat, end), end

    def _next_attempt_at(self) -> float | None:
        """Return when another attempt is due, by the event loop's clock; None: no attempt may follow."""
        child = self._child
        if child.attempts >= attempts_of(child) or self._stop.settled:
            return None
        if child.data.barred_anywhere or child.data.final or child.data.effects_unknown:
            return None  # it would ask a service that may have given another user's data, or could repeat an effect
        now = self._deps.clock.monotonic()  # `wall_clock_at` is by this clock, too
        wait = self._deps.chance.uniform(0.0, backoff_ceiling(child.attempts, self._shared.rules.retries))
        if child.frames is not None:
            child.frames.paused(wait)  # drawn at random, so a replay must be told
        if child.wall_clock_at is not None and now + wait >= child.wall_clock_at:
            return None  # the child's time would be over before the attempt began
        if not self._shared.budget.allow(now):
            _keep_refusal(child, "retry_budget")
            return None
        return now + wait

    def _repeat(self, end: BrokenReport) -> None:
        """Make the next attempt, after the pause."""
        self._pause = None
        child, now = self._child, self._deps.clock.now()
        child.note(now, What.REPEATED, *trimmed((str(end.reason), *fault_values(end))))
        self._deps.recorder.attempt_repeated(child.slot)
        self._try(now, self._deps.clock.monotonic())

    def _stopped(self, reason: CallFailure) -> None:
        """Stop the call: it was cancelled, or its deadline or the end of the turn has come."""
        if self._child.frames is not None:
            self._child.frames.stopped(reason)
        if self._attempt is not None:
            self._attempt.end(BrokenReport(reason, "stopped"))
        elif self._pause is not None:
            (deadline, end), self._pause = self._pause, None
            deadline.cancel()  # no attempt follows, so the end of the last one is the result
            self._conclude(end)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Run a callback; a defect in it settles only this call."""
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001  a defect must not cost the siblings anything
            self._defect(error)

    def _defect(self, error: Exception) -> None:
        """Settle the call after a defect of the sidecar. The sibling calls are not affected."""
        self._deps.recorder.anomaly("child_defect", type(error).__name__)
        broken = BrokenReport(CallFailure.INTERNAL, f"the sidecar raised {type(error).__name__}")
        if self._attempt is not None:
            self._attempt.end(broken)
        self._tell_breaker(None, heard=False)
        self._conclude(broken)

    def _conclude(self, end: AttemptEnd) -> None:
        """Settle the call with its final result, which is recorded together with the other ready steps."""
        if self._concluded:
            return  # e.g. `_defect` calls this after the end of its attempt has concluded the call
        self._concluded = True
        if not self._stop.settled:
            # The stop's callback refers to this object: without this cycle, a settled child is freed at once.
            self._stop = NOT_STOPPED
        took = timedelta(seconds=self._deps.clock.monotonic() - self._began)
        if isinstance(end, BrokenReport):
            end = replace(end, evidence=self._evidence)
        place = self._planned.place if self._child.contract.parent_child_id is None else None
        settlement = Settlement(self._deps, self._child, self._context, end, took, self._spent, self._over, place)
        self._context.ready.put(Step(self._child.call_id, settlement.lay_out))


def _keep_refusal(child: Child, why: str) -> None:
    """Record for replays why no further attempt was made."""
    if child.frames is not None:
        child.frames.refused(why)
