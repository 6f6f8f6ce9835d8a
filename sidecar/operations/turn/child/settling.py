"""Write down how a child ended, then tell. Source: SX-21, SX-23, SX-51, PC2-FR-10."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

import msgspec

from sidecar.core.dispatching.outcomes import CallOutcome, Outcome, Usage, axis_of
from sidecar.core.executing.events import BUDGET_STOPPED
from sidecar.core.executing.records import CallSettled, Record
from sidecar.operations.ready_list import LaidOut, Refusal
from sidecar.operations.turn.child.attempt_outcomes import (
    failed_at,
    fault_details,
    outcome_of,
    recorded_attempts,
    token_details,
    unrecorded,
)
from sidecar.operations.turn.child.call_context import Errand
from sidecar.operations.turn.child.dependencies import Outside
from sidecar.operations.turn.child.run_attempt import AttemptEnd, Broken, OutOfBudget
from sidecar.operations.turn.state.child import Child

Over: TypeAlias = Callable[[CallOutcome, datetime], object]
"""Told what a child came to, and when that is, once it is on record or could not be recorded in time."""


class Settlement(msgspec.Struct, frozen=True):
    """A child whose last attempt has ended.

    Attributes:
        spent: tokens of all its attempts.
    """

    outside: Outside
    child: Child
    errand: Errand
    end: AttemptEnd
    took: timedelta
    spent: Usage
    over: Over

    def lay_out(self, now: datetime) -> LaidOut:
        """Return what is to be written, and what is done then."""
        child, end = self.child, self.end
        spent = self.spent + child.ledger.usage_below if child.ledger.made else self.spent
        usage = spent if spent.input_tokens or spent.output_tokens else None
        outcome = outcome_of(child, end, self.took, usage)
        if child.repeats:
            child.note_left_out(now)
        if isinstance(end, OutOfBudget) or child.data.budget_hit:
            which = end.which if isinstance(end, OutOfBudget) else "tool_calls"
            child.note(now, BUDGET_STOPPED, f"out of budget: {which}", budget=which)
        details = {} if usage is None else token_details(usage)
        if outcome.outcome is Outcome.FAILED:
            cause, detail = str(outcome.reason), end.detail if isinstance(end, Broken) else ""
            summary = f"failed: {cause}{failed_at(end)}"
            child.fail(now, cause, summary, detail=detail, **fault_details(end), **details)
        else:
            answer = outcome.answer
            done = {"components": len(answer.components), "data_unavailable": answer.data_unavailable}
            child.wait_for_merge(now, outcome.outcome, **done, **details)
        settled: list[Record] = []
        if child.contract.parent_child_id is None:  # a delegation is not one of the orchestrator's calls
            settled.append(CallSettled(self.errand.turn.turn_id, self.errand.dispatch_id, outcome, now))
        settled.extend(recorded_attempts(child, self.errand.turn))
        records = child.add_unsaved(settled)
        return records, partial(self._tell, outcome, now, records)

    def _tell(
        self, outcome: CallOutcome, settled_at: datetime, records: Sequence[Record], refused: Refusal, now: datetime
    ) -> None:
        child, out = self.child, self.outside
        if refused is None:
            child.saved(records)
            out.reports.write(child, outcome)
        else:
            out.recorder.anomaly("outcome_unrecorded", child.child_id)
            outcome = unrecorded(outcome)
            child.correct(outcome)
        child.settle(outcome, settled_at)
        out.recorder.child_settled(child.slot, outcome.outcome, axis_of(outcome.outcome), self.took.total_seconds())
        self.over(outcome, now)
