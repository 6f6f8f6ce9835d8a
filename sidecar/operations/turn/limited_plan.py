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
    """Return the plan without the calls that a limit refuses; these are settled as refused.

    Args:
        plan: the plan of the dispatch, within the cap.
        left: the calls that the user has left today.
        over_budget: returns why a budget in money refuses a call; empty if it does not.
        recorder: counts the refusals of daily limits.
    """
    if left:
        plan = within_daily_limits(plan, left)
        # Daily limits go first: a call that they refuse must not use the budget of a call that can run.
        for outcome in plan.settled.values():
            if outcome.reason in DAILY:
                recorder.daily_limit(outcome.sub_agent_id or "", outcome.reason)
    return within_budget(plan, over_budget)
