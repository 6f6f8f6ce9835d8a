"""A child while it is alive here: contract, log, what it used, and what is not durable yet."""

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from sidecar.core.binding.surface import SurfaceTool
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome, Usage
from sidecar.core.errors import ChildClosed
from sidecar.core.executing.contract import Contract
from sidecar.core.executing.events import PARENT, SIDECAR, ChildEvent, ChildLog
from sidecar.core.executing.records import CallSettled, Record
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import AttemptId, CallId, ChildId, DispatchId, Principal, Slot, ToolId
from sidecar.core.replaying.frames import Effect
from sidecar.operations.requests import Integration, Verdict
from sidecar.operations.turn.state.data_use import DataUse
from sidecar.operations.turn.state.ledger import Ledger
from sidecar.operations.turn.state.recorded_frames import ChildFrames
from sidecar.operations.turn.state.trace_context import NO_TRACE, TraceContext
from sidecar.operations.turn.state.transitions import IllegalTransition
from subagents_errors import CallFailure

ANSWERED: Final = (Outcome.SUCCEEDED, Outcome.DEGRADED)
UNFINISHED: Final = (ExecutionState.CREATED, ExecutionState.RUNNING)


@dataclass(slots=True)
class Child:
    """One delegated execution.

    Attributes:
        contract_json: what runners are handed; empty once its turn has ended.
        opening: the first records that are to be written.
        unsaved: records that happened but are not durable yet; they go along with the next append.
        outcome: None while the call runs.
        status_events: reports made, before the policy.
        integrated: the parent took its output.
        verdict: what `CloseChild` closed it with; None otherwise.
        trace: of the attempt that runs.
        frames: what came from outside while it ran, for replays; None if that is not recorded.
        ends_at: of the loop's clock: when the attempt that runs is over at the latest.
        wall_clock_at: of the loop's clock: when the time of all attempts is over; None: no such limit.
        ledger: what it and those below it use; `above` is that of the child that delegates to it.
        repeats: something has happened that may happen any number of times; see `note_left_out`.
        restored: it was brought back from the record, where other sidecars may have made attempts.
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
    opening: InitVar[Sequence[Record]] = ()
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
    above: InitVar[Ledger | None] = None
    restored: bool = False
    repeats: bool = False

    slot: Slot = field(init=False)
    ledger: Ledger = field(init=False)
    unsaved: Sequence[Record] = field(init=False)
    _unsaved: list[Record] = field(init=False)

    def __post_init__(self, opening: Sequence[Record], above: Ledger | None) -> None:
        """Open the ledger."""
        self.slot = self.tool.slot
        self.unsaved = self._unsaved = list(opening)
        self.ledger = Ledger(self.contract.budgets, above)

    @property
    def has_unsaved_outcome(self) -> bool:
        """Whether its outcome here still has to be written, and stands then whatever is on record of it now."""
        return any(isinstance(record, CallSettled) for record in self.unsaved)

    def is_ahead_of(self, stored: Sequence[ChildEvent]) -> bool:
        """Say whether the log here is the stored one, or goes on from it."""
        if not stored:
            return True
        unsaved = [record for record in self.unsaved if isinstance(record, ChildEvent)]
        return stored[-1].link in {*(event.previous_link for event in unsaved), self.log.link}

    # --- what is to be written

    def take_unsaved(self) -> Sequence[Record]:
        """Return what is to be appended; `saved` forgets it once it is durable."""
        return tuple(self._unsaved)

    def add_unsaved(self, records: Iterable[Record]) -> Sequence[Record]:
        """Have records written with the next append that are no events of the child; see `take_unsaved`."""
        self._unsaved.extend(records)
        return tuple(self._unsaved)

    def saved(self, records: Sequence[Record]) -> None:
        """Forget records that are durable now. Others may have come in meanwhile, and two may save at once."""
        if records and len(records) == len(self._unsaved) and records[-1] is self._unsaved[-1]:
            self._unsaved.clear()  # the usual case: nothing came in
            return
        durable = {record.record_id for record in records}
        self._unsaved[:] = [record for record in self._unsaved if record.record_id not in durable]

    def forget_unsaved(self) -> None:
        """Everything of the child is on record, and nothing can have come in meanwhile."""
        self._unsaved.clear()

    def note(self, now: datetime, name: str, summary: str, *, actor: str = SIDECAR, **details: Any) -> None:
        """Something happened that changes no state. Raises `ChildClosed` if the child does not run."""
        self._unsaved.append(self.log.noted(now, name, summary, actor=actor, **details))

    def note_repeatable(self, now: datetime, name: str, summary: str, **details: Any) -> None:
        """The same for what may happen any number of times: only so many are kept, and none once it has ended."""
        if self.log.state is ExecutionState.RUNNING:
            self.repeats = True
            self._unsaved.extend(self.log.repeatable(now, name, summary, **details))

    # --- running

    def begin(self, now: datetime, began: float, *, keep_frames: bool) -> None:
        """It is run from `now`, which is `began` on the loop's clock, to its outcome."""
        if self.outcome is not None:
            raise IllegalTransition("begin", self.log.state)
        self.started_at = self.started_at or now
        self.frames = ChildFrames(began) if keep_frames else None
        wall_clock_ms = self.contract.budgets.wall_clock_ms
        if wall_clock_ms is not None:
            used = max(0.0, (now - self.started_at).total_seconds()) if self.restored else 0.0
            self.wall_clock_at = began + wall_clock_ms / 1000 - used

    def begin_attempt(self, now: datetime, attempt_id: AttemptId) -> None:
        """An attempt is made."""
        event = self.log.attempt(now, self.attempts + 1, attempt_id)
        self.attempts += 1
        self._unsaved.append(event)

    def attempt_runs(self, trace: TraceContext, ends_at: float) -> None:
        """The attempt is on its way to the runner."""
        self.trace, self.ends_at = trace, ends_at

    def reported(self, times: int) -> None:
        """The sub-agent has reported progress in an attempt."""
        self.status_events += times

    def use(self, effect: Effect, tool_id: ToolId) -> None:
        """The tool gateway did something for it: count that, and keep it for replays."""
        self.data.count(effect, tool_id)
        if self.frames is not None:
            self.frames.effect(effect, tool_id)

    def add_below(self, usage: Usage, *, barred: bool) -> None:
        """Take note of what a delegation came to."""
        self.data.barred_below = self.data.barred_below or barred
        self.ledger.add_below(usage)

    # --- its outcome

    def note_left_out(self, now: datetime) -> None:
        """Nothing that may happen any number of times can happen any more: say how much of it was only counted."""
        self._unsaved.extend(self.log.left_out(now))

    def fail(self, now: datetime, cause: str, summary: str, **details: Any) -> None:
        """The work failed. Raises `ChildClosed` if it was over."""
        self._unsaved.append(self.log.failed(now, cause, summary, **details))

    def wait_for_merge(self, now: datetime, outcome: str, **details: Any) -> None:
        """The work is done, and its integration is up to the parent. Raises `ChildClosed` if it was over."""
        self._unsaved.append(self.log.waiting_for_merge(now, outcome, **details))

    def take_frames(self) -> ChildFrames | None:
        """Return what was kept for replays, and forget it: a child is kept longer than it runs."""
        frames, self.frames = self.frames, None
        return frames

    def correct(self, told: CallOutcome) -> None:
        """Have `told` written in the place of an outcome that could not be recorded in time.

        The store may have the first one even so; the higher revision is the one that stands.
        """
        self._unsaved[:] = [
            msgspec.structs.replace(record, outcome=told, revision=1) if isinstance(record, CallSettled) else record
            for record in self._unsaved
        ]

    def settle(self, outcome: CallOutcome, now: datetime) -> None:
        """Its work is over, and its outcome is on record or could not be recorded."""
        if self.outcome is not None or self.log.state is ExecutionState.RUNNING:
            raise IllegalTransition("settle", self.log.state)
        self.outcome, self.settled_at = outcome, now

    def revise(self, outcome: CallOutcome) -> None:
        """Take the outcome that stands on record now; only what was brought back from there and has no newer one."""
        if not self.restored or self.has_unsaved_outcome:
            raise IllegalTransition("revise", self.log.state)
        self.outcome = outcome

    # --- its end

    def integrate(self, integration: Integration, now: datetime, actor: str = PARENT) -> None:
        """Apply a verdict to a child whose work has ended, and close it.

        Raises:
            ChildClosed: the child still runs, or is closed.
        """
        if self.outcome is None:
            raise ChildClosed("the child is still running; cancel its call first", metadata={"child_id": self.child_id})
        reason = "execution_failed"
        if self.log.state is ExecutionState.WAITING_FOR_MERGE:
            answered = self.outcome.outcome in ANSWERED
            accepted = answered and integration.verdict is not Verdict.REJECTED
            if accepted:
                self._unsaved.append(self.log.integrated(now, actor))
            else:
                # Without an answer there was nothing to reject: its outcome could not be recorded in time.
                why = integration.reason or "rejected by the parent" if answered else str(self.outcome.reason)
                self._unsaved.append(self.log.integration_failed(now, why, actor))
            reason = "integrated" if accepted else "integration_failed"
        self._close(now, reason, actor)

    def integrate_for_parent(self, integration: Integration, now: datetime) -> None:
        """Do so because the parent asks for it before the end of the turn; asking for the same again is fine then."""
        self.integrate(integration, now)
        self.verdict = integration

    def close_unintegrated(self, now: datetime, reason: str, actor: str) -> None:
        """Close it without a verdict; what waits for the parent has failed to be integrated."""
        if self.log.state is ExecutionState.WAITING_FOR_MERGE:
            self._unsaved.append(self.log.integration_failed(now, reason, actor))
        self._close(now, reason, actor)

    def fail_unfinished(self, now: datetime, cause: CallFailure) -> None:
        """Fail it if it was brought back from the record and never came to its end."""
        if self.log.state in UNFINISHED:
            self._unsaved.append(self.log.failed(now, cause, f"failed: {cause}"))

    def _close(self, now: datetime, reason: str, actor: str) -> None:
        integrated = self.log.state is ExecutionState.COMPLETED
        self._unsaved.append(self.log.closed(now, reason, actor))
        self.integrated, self.close_reason = integrated, reason
