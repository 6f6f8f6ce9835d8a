"""A child in memory: contract, log, usage, and the events that no fact contains yet.

`open_child` creates it, `run_child` executes it, and the end of the turn closes it. An event is first only in memory;
it counts as recorded when a fact that contains it is confirmed.
"""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from typing import Final

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome, Usage
from sidecar.core.dispatching.questions import Asked, Continuation
from sidecar.core.errors import ChildClosed
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.events import PARENT, ChildEvent
from sidecar.core.executing.states import ExecutionState
from sidecar.core.executing.tool_questions import ToolAnswer, split
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, Principal, Slot, ToolId
from sidecar.core.journal.facts import Progress
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.core.journal.marks import Values, What
from sidecar.core.replaying.frames import Effect
from sidecar.operations.requests import Integration, Verdict
from sidecar.operations.trace_context import NO_TRACE, TraceContext
from sidecar.operations.turn.state.data_use import DataUse, RequestedEffects
from sidecar.operations.turn.state.ledger import BudgetLedger
from sidecar.operations.turn.state.recorded_frames import ChildFrames
from sidecar.operations.turn.state.transitions import IllegalTransition
from subagents_errors import CallFailure

ANSWERED: Final = (Outcome.SUCCEEDED, Outcome.DEGRADED)
TAKEN: Final = (*ANSWERED, Outcome.SUSPENDED)
"""Outcomes that a parent can accept: an answer, or a question."""
UNFINISHED: Final = (ExecutionState.CREATED, ExecutionState.RUNNING)


@dataclass(slots=True)
class Child:
    """One delegated execution.

    Attributes:
        contract_json: sent to runners; empty once its turn has ended.
        outcome: None while the call runs.
        status_events: number of progress reports, before the status policy is applied.
        integrated: the parent accepted its output.
        verdict: the verdict of `CloseChild`; None if the child was not closed by it.
        trace: trace context of the running attempt.
        frames: recorded inputs while it runs, for replays; None if they are not recorded.
        ends_at: when the running attempt must have ended, by the event loop's clock.
        wall_clock_at: when the time of all attempts is used up, by the same clock; None: no such limit.
        ledger: the usage of this child and its descendants; `above` is the ledger of the delegating child.
        repeats: repeatable events have happened; see `note_left_out`.
        continues: the work that this child continues; None: it began new work.
        restored: it was restored from the record, so other sidecars may have made attempts.
        effects: its calls with effects; None until the first one.
        tool_question: the question of a data service; the child ends with this question.
        tool_answer: the answer to such a question, for the same call of this child.
    """

    child_id: ChildId
    call_id: CallId
    dispatch_id: DispatchId
    step_idx: int
    tool: SurfaceTool
    contract: Contract
    contract_json: str
    principal: Principal
    log: ChildLog
    data: DataUse = field(default_factory=DataUse)
    outcome: CallOutcome | None = None
    attempts: int = 0
    status_events: int = 0
    started_at: datetime | None = None
    settled_at: datetime | None = None
    close_reason: str = ""
    integrated: bool = False
    verdict: Integration | None = None
    trace: TraceContext = NO_TRACE
    frames: ChildFrames | None = None
    ends_at: float = 0.0
    wall_clock_at: float | None = None
    above: InitVar[BudgetLedger | None] = None
    restored: bool = False
    repeats: bool = False
    continues: Continuation | None = None
    effects: RequestedEffects | None = None
    tool_question: Asked | None = None
    tool_answer: ToolAnswer | None = None

    slot: Slot = field(init=False)
    ledger: BudgetLedger = field(init=False)

    def __post_init__(self, above: BudgetLedger | None) -> None:
        """Open the ledger, below that of the delegating child if there is one."""
        self.slot = self.tool.slot
        self.ledger = BudgetLedger(self.contract.budgets, above)

    def is_ahead_of(self, stored: Sequence[ChildEvent], unconfirmed: int) -> bool:
        """Return whether the log in memory equals the recorded one or extends it.

        Args:
            stored: the recorded events.
            unconfirmed: number of events in drafts that are not known to be recorded.
        """
        # The right side is the number of events that this process knows to be recorded. If the record has more, another
        # sidecar has appended events of this child.
        return len(stored) <= self.log.sequence - self.log.waiting - unconfirmed

    # --- events that must be recorded

    @property
    def waits_for_a_fact(self) -> bool:
        """Whether there are events that no draft contains."""
        return self.log.waiting > 0

    def progress(self, at: datetime, values: list[Values], *, take: bool = True) -> Progress:
        """Return the events that no draft contains, for a fact made at `at`; see `ChildLog.progress`."""
        return self.log.progress(at, values, take=take)

    def forget_waiting(self) -> None:
        """Clear the events: all of them are recorded, and the child is closed."""
        self.log.clear()

    def note(self, now: datetime, what: What, *values: object) -> None:
        """Note an event that changes no state. Raises `ChildClosed` if the child does not run."""
        self.log.noted(now, what, *values)

    def note_repeatable(self, now: datetime, what: What, *values: object) -> None:
        """Note an event of which any number may happen. Only the first ones are kept, and none after the end.

        A sub-agent can cause such events at will; without the limit it could fill the record.
        """
        if self.log.state is ExecutionState.RUNNING:
            self.repeats = True
            self.log.repeatable(now, what, *values)

    # --- running

    def continue_work(self, continuation: Continuation) -> None:
        """Note that the child continues the work of another child; must be called before the child begins."""
        self.continues, self.tool_answer = split(continuation)

    def ask_for_tool(self, asked: Asked, attempt: int) -> None:
        """Note the question of a data service, unless the attempt that called the service is over."""
        # An abandoned attempt may still receive an answer of a data service. The child must not end with a question
        # that its running attempt did not cause.
        if attempt == self.attempts:
            self.tool_question = asked

    def begin(self, now: datetime, began: float, *, keep_frames: bool) -> None:
        """Start the child at `now`, which is `began` by the event loop's clock."""
        if self.outcome is not None:
            raise IllegalTransition("begin", self.log.state)
        # A restored child keeps its first start, from which its time budget counts.
        self.started_at = self.started_at or now
        self.frames = ChildFrames(began) if keep_frames else None
        # After a takeover, the recorded log may have this event already.
        if self.continues is not None and not self.log.has(What.CONTINUES):
            self.note(now, What.CONTINUES, self.continues.child_id, self.continues.turn_id)
        wall_clock_ms = self.contract.budgets.wall_clock_ms
        if wall_clock_ms is not None:
            # After a restart the loop's clock begins anew, so the time used before is derived from the wall clock.
            used = max(0.0, (now - self.started_at).total_seconds()) if self.restored else 0.0
            self.wall_clock_at = began + wall_clock_ms / 1000 - used

    def begin_attempt(self, now: datetime, attempt_id: AttemptId) -> None:
        """Begin an attempt."""
        # The log first: it raises for a child whose work is over, and such an attempt must not be counted.
        self.log.attempt(now, self.attempts + 1, attempt_id)
        self.attempts += 1

    def attempt_runs(self, trace: TraceContext, ends_at: float) -> None:
        """Set the trace context and the end of the attempt that is about to be sent to the runner."""
        self.trace, self.ends_at = trace, ends_at

    def reported(self, times: int) -> None:
        """Count the progress reports of an attempt."""
        self.status_events += times

    def use(self, effect: Effect, tool_id: ToolId) -> None:
        """Count an action of the tool gateway, and record it for replays."""
        self.data.count(effect, tool_id)
        if self.frames is not None:
            self.frames.effect(effect, tool_id)

    def sent_effects(self) -> RequestedEffects:
        """Return the child's effects; created at the first use, because most children have none."""
        if self.effects is None:
            self.effects = RequestedEffects(self.child_id)
        return self.effects

    def add_below(self, usage: Usage, *, barred: bool, sent: int = 0, unknown: int = 0) -> None:
        """Note the usage and the data use of a child that this one delegated to; see `DataUse.count_below`."""
        self.data.count_below(sent, unknown, barred=barred)
        self.ledger.add_below(usage)

    # --- outcome

    def note_left_out(self, now: datetime) -> None:
        """Record how many repeatable events were only counted; called when no further one can happen."""
        self.log.left_out(now)

    def fail(self, now: datetime, *values: object) -> None:
        """Record that the work failed. Raises `ChildClosed` if it was over.

        `core/journal/marks.py` lists the values (`FORMS`).
        """
        self.log.failed(now, *values)

    def wait_for_merge(self, now: datetime, values: Values = ()) -> None:
        """Record that the work is done and that the parent decides on its integration.

        Raises `ChildClosed` if it was over.
        """
        self.log.waiting_for_merge(now, values)

    def take_frames(self) -> ChildFrames | None:
        """Return the recorded frames and drop them, because a child is kept longer than it runs."""
        frames, self.frames = self.frames, None
        return frames

    def settle(self, outcome: CallOutcome, now: datetime) -> None:
        """Set the outcome, which is recorded or could not be recorded."""
        # The log is settled first (`fail`, `wait_for_merge`) and recorded with that event; the outcome follows when the
        # record has accepted it or has failed to.
        if self.outcome is not None or self.log.state is ExecutionState.RUNNING:
            raise IllegalTransition("settle", self.log.state)
        self.outcome, self.settled_at = outcome, now

    def revise(self, outcome: CallOutcome) -> None:
        """Replace the outcome by the one that the record has now. Only for a restored child."""
        if not self.restored:
            raise IllegalTransition("revise", self.log.state)
        self.outcome = outcome

    # --- closing

    def integrate(self, integration: Integration, now: datetime, actor: str = PARENT) -> None:
        """Apply a verdict to a child whose work has ended, and close it.

        Raises:
            ChildClosed: the child still runs, or is closed.
        """
        if self.outcome is None:
            raise ChildClosed("the child is still running; cancel its call first", metadata={"child_id": self.child_id})
        reason = "execution_failed"
        if self.log.state is ExecutionState.WAITING_FOR_MERGE:
            answered = self.outcome.outcome in TAKEN
            # Only a rejection prevents the integration: a parent that gives no verdict has accepted the answer.
            accepted = answered and integration.verdict is not Verdict.REJECTED
            if accepted:
                self.log.integrated(now, actor)
            else:
                # Without an answer there was nothing to reject: its outcome could not be recorded in time.
                why = (integration.reason or "rejected by the parent") if answered else str(self.outcome.reason)
                self.log.integration_failed(now, why, actor)
            reason = "integrated" if accepted else "integration_failed"
        self._close(now, reason, actor)

    def integrate_for_parent(self, integration: Integration, now: datetime) -> None:
        """Integrate on the parent's request before the end of the turn; the same request may be repeated."""
        self.integrate(integration, now)
        self.verdict = integration

    def close_unintegrated(self, now: datetime, reason: str, actor: str) -> None:
        """Close the child without a verdict. If it waits for the parent, its integration has failed."""
        if self.log.state is ExecutionState.WAITING_FOR_MERGE:
            self.log.integration_failed(now, reason, actor)
        self._close(now, reason, actor)

    def fail_unfinished(self, now: datetime, cause: CallFailure) -> None:
        """Fail a child that was restored unfinished from the record."""
        if self.log.state in UNFINISHED:
            self.log.failed(now, str(CallFailure.EFFECT_UNKNOWN if self.data.effects_unknown else cause))

    def _close(self, now: datetime, reason: str, actor: str) -> None:
        # Read before `closed`, which replaces the state.
        integrated = self.log.state is ExecutionState.COMPLETED
        self.log.closed(now, reason, actor)
        self.integrated, self.close_reason = integrated, reason
