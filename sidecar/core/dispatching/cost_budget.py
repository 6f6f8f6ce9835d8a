"""Budgets in money: whether the next child may start. Source: DESIGN section 5."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.core.definitions.cards.card import ModelEntry
from sidecar.core.dispatching.money import is_priced
from sidecar.core.dispatching.outcomes import Outcome
from sidecar.core.dispatching.plan import DispatchPlan, PlannedCall, outcomes_without_run
from subagents_errors import CallFailure

OF_TURN: Final = "The budget of this turn is used up."
OF_DAY: Final = "The user's budget of the day is used up."
UNPRICED: Final = "What it costs is not known, and there is a budget."


class CostBudgets(Struct, frozen=True):
    """The most that children may have cost before the next one starts, in units of `money`; None: no such budget."""

    turn: int | None = None
    principal_and_day: int | None = None

    def refusal(self, model: ModelEntry, turn: int, elsewhere: int) -> str:
        """Return why a child that uses a model may not start; empty: it may.

        Args:
            model: of the child's definition. A model without prices is refused: an unknown cost is not zero.
            turn: cost of the turn's settled calls.
            elsewhere: cost of the settled calls of the user's other turns of the day.
        """
        if self.turn is None and self.principal_and_day is None:
            return ""
        # Before the amounts: a sub-agent without a price could spend any budget unnoticed.
        if not is_priced(model):
            return UNPRICED
        if self.turn is not None and turn >= self.turn:
            return OF_TURN
        if self.principal_and_day is not None and turn + elsewhere >= self.principal_and_day:
            return OF_DAY
        return ""


def within_budget(plan: DispatchPlan, refusal_of: Callable[[PlannedCall], str]) -> DispatchPlan:
    """Return a plan that refuses the calls that may not start; `refusal_of` returns the reason, or an empty text."""
    # Each call alone: what the calls of one plan will cost together is not known before they have run.
    refused = {each.place: (each, why) for each in plan.run if (why := refusal_of(each))}
    if not refused:
        return plan
    settled = {
        place: outcomes_without_run(planned, Outcome.REFUSED, CallFailure.COST_BUDGET, why)
        for place, (planned, why) in refused.items()
    }
    return replace(
        plan, run=tuple(each for each in plan.run if each.place not in refused), settled=plan.settled | settled
    )
