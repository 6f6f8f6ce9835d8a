"""Removes calls that a limit refuses from the plan of a dispatch: daily limits first, then budgets in money."""

from collections.abc import Callable
from typing import Final

from sidecar.core.dispatching.cost_budget import within_budget
from sidecar.core.dispatching.daily_limits import CallsLeft, within_daily_limits
from sidecar.core.dispatching.plan import DispatchPlan, PlannedCall
from sidecar.operations.ports import Recorder
from subagents_errors import CallFailure

DAILY: Final = (CallFailure.DAILY_LIMIT_REACHED, CallFailure.DAILY_LIMIT_UNKNOWN)


def limited_plan(
    plan: DispatchPlan, left: CallsLeft, over_budget: Callable[[PlannedCall], str], recorder: Recorder
) -> DispatchPlan:
    """Return a plan without the calls that may not start, which are refused; count those of daily limits.

    Args:
        plan: of the dispatch, within the cap.
        left: calls that the user has left today.
        over_budget: says why a budget in money refuses a call, or nothing.
        recorder: counts refusals.
    """
    if left:
        plan = within_daily_limits(plan, left)
        for outcome in plan.settled.values():
            if outcome.reason in DAILY:
                recorder.daily_limit(outcome.sub_agent_id or "", outcome.reason)
    return within_budget(plan, over_budget)
