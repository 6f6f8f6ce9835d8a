"""Daily limits and budgets in money: which calls of a plan are refused, why, and what is left for the others."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from msgspec.structs import replace

from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cost_budget import OF_DAY, OF_TURN, UNPRICED, CostBudgets, within_budget
from sidecar.core.dispatching.daily_limits import NO_LIMITS, CallsLeft, day_of, within_daily_limits
from sidecar.core.dispatching.money import cost_of, in_usd, is_priced, units
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome, Usage
from sidecar.core.dispatching.plan import DispatchPlan, plan_dispatch
from sidecar.core.identifiers import CallId, Slot
from subagents_errors import CallFailure
from tests.support.builders import MODEL, a_surface

PRICED = replace(MODEL, price_per_million_input=2.0, price_per_million_output=4.0)
SHOP, REWARDS = Slot("shop"), Slot("rewards")


def a_plan(*slots: str) -> DispatchPlan:
    """Return a plan of one call to each of `slots`, and of one call beyond the cap."""
    calls = [ToolCall(CallId(f"c{place}"), f"ask_{slot}", '{"request": "oats"}') for place, slot in enumerate(slots)]
    return plan_dispatch(a_surface("shop", "rewards"), [*calls, replace(calls[0], call_id=CallId("x"))], 5, len(calls))


def refused(place: int, slot: Slot, reason: CallFailure, hint: str) -> CallOutcome:
    """Return the outcome of a refused call."""
    return CallOutcome(
        call_id=CallId(f"c{place}"),
        tool_name=f"ask_{slot}",
        sub_agent_id=slot,
        child_id=None,
        emission_index=5 + place,
        outcome=Outcome.REFUSED,
        reason=reason,
        hint=hint,
    )


def settled(plan: DispatchPlan, *outcomes: CallOutcome) -> list[tuple[int, CallOutcome]]:
    """Return what a plan settles, in order, if these calls are refused in addition."""
    return sorted([*plan.settled.items(), *((each.emission_index - 5, each) for each in outcomes)])


@pytest.mark.parametrize(
    ("left", "run"),
    [
        ({}, (0, 1, 2, 3)),
        ({SHOP: 3}, (0, 1, 2, 3)),
        ({SHOP: 2}, (0, 1, 2)),
        ({SHOP: 1}, (0, 1)),
        ({SHOP: 0}, (1,)),
        ({SHOP: 1, REWARDS: 0}, (0,)),
    ],
)
def test_the_earliest_calls_run_as_long_as_the_limit_has_room(left: CallsLeft, run: Sequence[int]) -> None:
    """The others are refused until tomorrow. Sub-agents without a limit are unaffected."""
    before = a_plan("shop", "rewards", "shop", "shop")
    plan = within_daily_limits(before, left)
    slots = (SHOP, REWARDS, SHOP, SHOP)
    hint = "It can be asked again tomorrow."
    others = [
        refused(place, slots[place], CallFailure.DAILY_LIMIT_REACHED, hint) for place in range(4) if place not in run
    ]

    assert [each.place for each in plan.run] == list(run)
    assert list(plan.settled.items()) == settled(before, *others)
    assert replace(plan, run=before.run, settled=before.settled) == before
    assert NO_LIMITS == {}


def test_a_limit_of_which_the_rest_is_unknown_refuses_every_call() -> None:
    """Without a promise of tomorrow."""
    before = a_plan("rewards", "shop", "shop")
    plan = within_daily_limits(before, {SHOP: None})
    unknown = [refused(place, SHOP, CallFailure.DAILY_LIMIT_UNKNOWN, "") for place in (1, 2)]

    assert [each.place for each in plan.run] == [0]
    assert list(plan.settled.items()) == settled(before, *unknown)


def test_a_day_begins_at_midnight_in_utc() -> None:
    """Whatever the time zone of the moment is."""
    late = datetime(2026, 3, 1, 23, 59, 58, 7, tzinfo=timezone(timedelta(hours=-2)))

    assert day_of(late) == datetime(2026, 3, 2, tzinfo=UTC)
    assert day_of(late).tzinfo is UTC
    assert day_of(datetime(2026, 3, 1, tzinfo=UTC)) == datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("budgets", "turn", "elsewhere", "why"),
    [
        (CostBudgets(), 10**15, 10**15, ""),
        (CostBudgets(turn=5), 4, 99, ""),
        (CostBudgets(turn=5), 5, 0, OF_TURN),
        (CostBudgets(principal_and_day=5), 2, 2, ""),
        (CostBudgets(principal_and_day=5), 2, 3, OF_DAY),
        (CostBudgets(principal_and_day=5), 5, 0, OF_DAY),
        (CostBudgets(turn=5, principal_and_day=9), 4, 4, ""),
        (CostBudgets(turn=5, principal_and_day=5), 5, 0, OF_TURN),
        (CostBudgets(turn=0), 0, 0, OF_TURN),
        (CostBudgets(principal_and_day=0), 0, 0, OF_DAY),
    ],
)
def test_a_child_starts_while_what_was_spent_is_below_each_budget(
    budgets: CostBudgets, turn: int, elsewhere: int, why: str
) -> None:
    """The day's budget counts this turn and the others."""
    assert budgets.refusal(PRICED, turn, elsewhere) == why


@pytest.mark.parametrize("budgets", [CostBudgets(turn=5), CostBudgets(principal_and_day=5)])
@pytest.mark.parametrize("missing", ["price_per_million_input", "price_per_million_output"])
def test_a_model_without_both_prices_does_not_start_under_a_budget(budgets: CostBudgets, missing: str) -> None:
    """An unknown cost is not zero. Without a budget it starts."""
    unpriced = replace(PRICED, **{missing: None})

    assert budgets.refusal(unpriced, 0, 0) == UNPRICED
    assert CostBudgets().refusal(unpriced, 0, 0) == ""
    assert (is_priced(PRICED), is_priced(unpriced)) == (True, False)


def test_calls_that_a_budget_refuses_leave_the_plan_with_the_reason() -> None:
    """Each for its own reason; the others run. A plan of which nothing is refused is the same plan."""
    before = a_plan("shop", "rewards", "shop")
    why = {0: OF_TURN, 2: UNPRICED}
    plan = within_budget(before, lambda planned: why.get(planned.place, ""))
    outcomes = [refused(place, SHOP, CallFailure.COST_BUDGET, text) for place, text in why.items()]

    assert [each.place for each in plan.run] == [1]
    assert sorted(plan.settled.items()) == settled(before, *outcomes)
    assert within_budget(before, lambda planned: "") is before
    assert (OF_TURN, OF_DAY, UNPRICED) == (
        "The budget of this turn is used up.",
        "The user's budget of the day is used up.",
        "What it costs is not known, and there is a budget.",
    )


@pytest.mark.parametrize(
    ("amount", "text"),
    [(-1, "-0.000000000001"), (-2_500_000_000_000, "-2.50"), (0, "0.00"), (10_000_000_000_000, "10.00")],
)
def test_a_negative_amount_has_its_sign_and_zeros_of_the_whole_part_stay(amount: int, text: str) -> None:
    """Only decimals lose their trailing zeros."""
    assert in_usd(amount) == text


def test_an_amount_with_more_than_twelve_decimals_is_cut() -> None:
    """A decimal is taken as it is, with all digits that it has."""
    assert units(Decimal("0.0000000000019")) == 1
    assert units(Decimal("1.5")) == 1_500_000_000_000


def test_the_cost_of_one_kind_of_tokens_needs_the_price_of_this_kind_only() -> None:
    """Tokens that are not there cost nothing, whatever their price is."""
    assert cost_of(Usage(0, 3), PRICED) == 3 * 4_000_000
    assert cost_of(Usage(0, 3), replace(PRICED, price_per_million_input=None)) == 3 * 4_000_000
    assert cost_of(Usage(), MODEL) == 0


def test_a_cost_is_known_if_a_part_with_input_or_output_tokens_says_it() -> None:
    """A part without output tokens counts like any other."""
    assert (Usage(1, 0) + Usage(1, 1, cost=5)).cost is None
    assert (Usage(0, 1) + Usage(1, 1, cost=5)).cost is None
    assert (Usage(1, 0, cost=2) + Usage(0, 1, cost=5)).cost == 7
