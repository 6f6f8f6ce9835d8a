"""Run one child: attempts, checks, outcome on record. Whatever goes wrong comes back as an outcome."""

from datetime import timedelta

from msgspec.structs import replace

from sidecar.core.binding.surface import Surface
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Outcome, Usage, axis_of
from sidecar.core.dispatching.result_checks import ResultCollector
from sidecar.core.errors import RecordConflict
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.delegation import whom_to_ask
from sidecar.core.executing.events import ATTEMPT_REPEATED, BUDGET_STOPPED
from sidecar.core.executing.records import CallSettled
from sidecar.core.executing.retries import (
    Breaker,
    Breakers,
    BreakerState,
    RetryBudget,
    attempts_allowed,
    backoff_ceiling,
)
from sidecar.core.identifiers import AttemptId
from sidecar.operations.first_result import Ending
from sidecar.operations.record.timed_access import put_on_record
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.attempt_outcomes import (
    accepted,
    failed_at,
    failure_of,
    fault_details,
    fault_of,
    lost_with_its_sidecar,
    outcome_of,
    recorded_attempts,
    silent,
    token_details,
    unrecorded,
    with_evidence,
)
from sidecar.operations.turn.child.call_context import Errand
from sidecar.operations.turn.child.dependencies import Outside
from sidecar.operations.turn.child.run_attempt import (
    Attempt,
    AttemptBounds,
    AttemptEnd,
    Broken,
    OutOfBudget,
    Quarantine,
)
from sidecar.operations.turn.state.child import Child
from sidecar.policy.protocols import DelegateTool, Runner, RunRequest, StatusReported
from subagents_errors import CallFailure


class RunChild:
    """Runs children; shares the retry budget and the breakers among all of them."""

    def __init__(self, rules: DispatchRules, outside: Outside) -> None:
        """Begin with a full budget and closed breakers."""
        self._rules = rules
        self._out = outside
        share = rules.outcomes_bytes // rules.binding.fan_out_cap
        self._limits = replace(rules.results, total=min(rules.results.total, share))
        self._budget = RetryBudget(rules.retries)
        self._breakers = Breakers(rules.breaker)

    async def __call__(self, child: Child, dispatch: Errand) -> CallOutcome:
        """Run `child`, which is open on record, to its outcome; the outcome is durable when this returns."""
        stop = dispatch.stop_of(child.call_id)
        clock = self._out.clock
        began = clock.monotonic()
        child.begin(clock.now(), began, keep_frames=self._rules.record_frames)
        if child.frames is not None:
            stop.on_settled(child.frames.stopped)
        spent, evidence = Usage(), Answer()
        try:
            runner = self._out.runners.runner_for(child.tool.card)
            allowed = attempts_allowed(child.contract.execution)
            end = lost_with_its_sidecar(child, allowed)
            while end is None:
                collector = ResultCollector(child.tool.card.definition, self._limits)
                ended = await self._attempt(child, dispatch, runner, collector)
                spent, brought = spent + (collector.usage or Usage()), collector.evidence()
                evidence = evidence if brought.is_empty else brought
                end = None if await self._again(child, ended, allowed, stop) else with_evidence(ended, evidence)
        except Exception as error:  # noqa: BLE001  a defect here must not cost the siblings anything
            self._out.recorder.anomaly("child_defect", type(error).__name__)
            end = Broken(CallFailure.INTERNAL, f"the sidecar raised {type(error).__name__}")
        spent += child.ledger.usage_below
        usage = spent if spent.total else None
        return await self._settle(child, dispatch, end, timedelta(seconds=clock.monotonic() - began), usage)

    async def _attempt(
        self,
        child: Child,
        dispatch: Errand,
        runner: Runner,
        collector: ResultCollector,
    ) -> AttemptEnd:
        """Make one attempt, if the call is not stopped and the breaker lets it out."""
        stopped = dispatch.stop_of(child.call_id).how
        if stopped is not None:
            return Broken(stopped, "stopped before the attempt")
        breaker = self._breakers.of(runner.target, child.slot)
        if not breaker.admit(self._out.clock.monotonic()):
            _keep_refusal(child, "breaker")
            shut = f"the breaker of {runner.target} for {child.slot} is open"
            return Broken(CallFailure.RUNNER_BREAKER_OPEN, shut)
        end: AttemptEnd | None = None
        heard = False
        try:
            end, heard = await self._admitted(child, dispatch, runner, collector)
            return end
        finally:
            self._tell(breaker, child, end, heard=heard)

    async def _admitted(
        self, child: Child, dispatch: Errand, runner: Runner, collector: ResultCollector
    ) -> tuple[AttemptEnd, bool]:
        """Make the attempt; return its end, and whether anything was heard of the host."""
        attempt_id = AttemptId(self._out.ids.new("attempt"))
        child.begin_attempt(self._out.clock.now(), attempt_id)
        if child.attempts == 1:
            self._budget.called(self._out.clock.monotonic())
        # The first attempt is known from `started`. Others count once they are on record: whoever takes the child over
        # must not make one too many.
        if child.attempts > 1 and not await self._saved(child, dispatch):
            return Broken(CallFailure.RECORD_UNAVAILABLE, "the attempt could not be recorded"), False
        bounds = self._bounds(child, dispatch.settle_at)
        span = self._out.tracing.attempt(child, dispatch.trace, dispatch.turn.claims.episode_id)
        ends_at = dispatch.settle_at if bounds.timeout_at is None else bounds.timeout_at
        child.attempt_runs(span.context if span is not None else dispatch.trace, ends_at)
        request = self._request(child, dispatch, attempt_id)

        def on_status(reported: StatusReported) -> None:
            child.report()
            dispatch.status(child, reported.type, reported.attributes)

        quarantine = Quarantine(self._out.recorder, self._rules.quarantine_after.total_seconds())
        kept, now = child.frames, self._out.clock.monotonic()
        frames = None if kept is None else kept.begin(attempt_id, child.attempts, now)
        attempt = Attempt(runner, collector, bounds, on_status, quarantine, frames)
        end: AttemptEnd | None = None
        used = False
        try:
            end = accepted(child, await attempt.run(request, dispatch.stop_of(child.call_id), self._out.spawner))
        finally:
            used = self._out.grants.revoke(attempt_id)
            await child.ledger.end_delegations(CallFailure.CALL_CANCELLED)
            if span is not None:
                span.ended(failure_of(end), collector.usage)
            if collector.usage is not None:
                self._out.recorder.tokens_used(child.slot, collector.usage)
        heard = attempt.heard or used
        return (end if heard else silent(end, runner.target)), heard

    async def _again(self, child: Child, end: AttemptEnd, allowed: int, stop: Ending[CallFailure]) -> bool:
        """Say whether another attempt is due, after waiting for it. Source: TN-24, SX-28, PC2-FR-12e."""
        if not (isinstance(end, Broken) and end.transient) or child.attempts >= allowed or stop.settled:
            return False
        if child.data.barred_anywhere:
            return False  # another attempt would ask the data service again
        now = self._out.clock.monotonic()
        wait = self._out.chance.uniform(0.0, backoff_ceiling(child.attempts, self._rules.retries))
        at = now + wait
        if child.frames is not None:
            child.frames.paused(wait)
        if child.wall_clock_at is not None and at >= child.wall_clock_at:
            return False  # the child's time would be over before the attempt began
        if not self._budget.allow(now):
            _keep_refusal(child, "retry_budget")
            return False
        pause: Ending[bool] = Ending()
        pause.settle_at(at, True)
        stop.on_settled(lambda _: pause.settle(False))
        again = await pause.wait()
        if again:
            summary = f"attempt {child.attempts} failed: {end.reason}; another one is made"
            details = {"reason": end.reason, **fault_details(end)}
            child.note(self._out.clock.now(), ATTEMPT_REPEATED, summary, **details)
            self._out.recorder.attempt_repeated(child.slot)
        return again

    async def _settle(
        self, child: Child, dispatch: Errand, end: AttemptEnd, took: timedelta, usage: Usage | None
    ) -> CallOutcome:
        """Write the end down, then tell. Source: SX-21, SX-23, SX-51, PC2-FR-10."""
        outcome = outcome_of(child, end, took, usage)
        now = self._out.clock.now()
        child.note_left_out(now)
        if isinstance(end, OutOfBudget) or child.data.budget_hit:
            which = end.which if isinstance(end, OutOfBudget) else "tool_calls"
            child.note(now, BUDGET_STOPPED, f"out of budget: {which}", budget=which)
        detail = end.detail if isinstance(end, Broken) else ""
        if outcome.outcome is Outcome.FAILED:
            cause = str(outcome.reason)
            summary = f"failed: {cause}{failed_at(end)}"
            details = fault_details(end) | token_details(usage)
            child.fail(now, cause, summary, detail=detail, **details)
        else:
            child.wait_for_merge(
                now,
                outcome.outcome,
                components=len(outcome.answer.components),
                data_unavailable=outcome.answer.data_unavailable,
                **token_details(usage),
            )
        if child.contract.parent_child_id is None:  # a delegation is not one of the orchestrator's calls
            child.add_unsaved([CallSettled(dispatch.turn.turn_id, dispatch.dispatch_id, outcome, now)])
        child.add_unsaved(recorded_attempts(child, dispatch.turn))
        if not await self._saved(child, dispatch):
            self._out.recorder.anomaly("outcome_unrecorded", child.child_id)
            outcome = unrecorded(outcome)
            child.correct(outcome)
        else:
            self._out.reports.write(child, outcome)
        child.settle(outcome, now)
        self._out.recorder.child_settled(child.slot, outcome.outcome, axis_of(outcome.outcome), took.total_seconds())
        return outcome

    async def _saved(self, child: Child, dispatch: Errand) -> bool:
        records = child.take_unsaved()
        refused = await put_on_record(self._out.store, records, dispatch.record_by)
        if refused is None:
            child.saved(records)
        elif isinstance(refused, RecordConflict):
            dispatch.lose()
        return refused is None

    def _bounds(self, child: Child, settle_at: float) -> AttemptBounds:
        budgets, wall_clock_at = child.contract.budgets, child.wall_clock_at
        timeout_at = self._out.clock.monotonic() + child.contract.execution.attempt_timeout_ms / 1000
        return AttemptBounds(
            timeout_at=timeout_at if timeout_at <= settle_at else None,
            wall_clock_at=wall_clock_at,
            idle=None if budgets.idle_timeout_ms is None else budgets.idle_timeout_ms / 1000,
            ledger=child.ledger,
        )

    def _request(self, child: Child, dispatch: Errand, attempt_id: AttemptId) -> RunRequest:
        card, surface = child.tool.card, dispatch.turn.surface
        return RunRequest(
            child_id=child.child_id,
            attempt_id=attempt_id,
            attempt=child.attempts,
            card=card,
            arguments_json=dispatch.arguments_of(child.call_id),
            context=dispatch.inherited_of(child.call_id),
            prompt_prefix=surface.prompt_prefix_of(card),
            prompt_suffix=dispatch.turn.prompt_suffix,
            contract_json=child.contract_json,
            grant=self._out.grants.mint(child, attempt_id),
            timeout=timedelta(seconds=max(0.0, child.ends_at - self._out.clock.monotonic())),
            trace_headers=child.trace.headers,
            delegates=delegates_of(child.contract, surface),
        )

    def _tell(self, breaker: Breaker, child: Child, end: AttemptEnd | None, *, heard: bool) -> None:
        """Tell the breaker what the attempt says of the way to the host; log what broke. `end` None: nothing."""
        now, fault = self._out.clock.monotonic(), fault_of(end)
        if fault is None:
            breaker.succeeded() if heard else breaker.abandoned(now)
            return
        breaker.failed(now)
        told = f"{child.slot} cannot be run, {fault.in_words()}: {fault.remedy}"
        self._out.recorder.anomaly("runner_unreachable", told, {"sub_agent_id": child.slot, **fault.details()})
        if breaker.state is BreakerState.OPEN:
            self._out.recorder.anomaly("breaker_opened", f"{child.slot}, {fault.in_words()}")


def _keep_refusal(child: Child, why: str) -> None:
    """Keep that another attempt was not made, for replays."""
    if child.frames is not None:
        child.frames.refused(why)


def delegates_of(contract: Contract, surface: Surface) -> tuple[DelegateTool, ...]:
    """Return whom a sub-agent may delegate to, in the surface's order; `Delegate` decides anew when one is asked."""
    if not contract.permissions.can_spawn_children:  # nearly all: looked at first, since each attempt asks
        return ()
    return tuple(
        DelegateTool(tool.name, tool.description, tool.arguments_schema_json) for tool in whom_to_ask(contract, surface)
    )
