"""Refuses the calls of a plan that exceed the user's daily limits."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.dispatching.plan import DispatchPlan, outcomes_without_run
from sidecar.core.identifiers import Slot
from subagents_errors import CallFailure

CallsLeft = Mapping[Slot, int | None]
"""Calls that a principal has left today, by slot with a limit; None: unknown."""
NO_LIMITS: Final[CallsLeft] = {}


def within_daily_limits(plan: DispatchPlan, left: CallsLeft) -> DispatchPlan:
    """Return the plan without the calls that exceed a limit; these are refused.

    The earliest calls run. A refused call keeps its place under the cap: a sidecar that computes the plan again from
    the record, without looking at limits, must drop the same calls.
    """
    remaining, run, settled = dict(left), [], dict(plan.settled)
    for planned in plan.run:
        slot = planned.tool.slot
        if slot not in remaining:  # the slot has no limit
            run.append(planned)
            continue
        calls = remaining[slot]
        # Zero and None both refuse: an unknown count must not allow a call that exceeds the limit.
        if calls:
            remaining[slot] = calls - 1
            run.append(planned)
            continue
        reason = CallFailure.DAILY_LIMIT_UNKNOWN if calls is None else CallFailure.DAILY_LIMIT_REACHED
        hint = "" if calls is None else "It can be asked again tomorrow."
        settled[planned.place] = outcomes_without_run(planned, Outcome.REFUSED, reason, hint)
    return replace(plan, run=tuple(run), settled=dict(sorted(settled.items())))


def day_of(moment: datetime) -> datetime:
    """Return the beginning of the day of a moment, in UTC."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
