"""Costs are exact: whole units, whatever the prices and tokens are."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.core.dispatching.money import cost_of, in_usd, units
from sidecar.core.dispatching.outcomes import Usage
from tests.support.builders import MODEL

PRICES = st.decimals(min_value=0, max_value=10_000, places=6)
TOKENS = st.integers(0, 10**9)


@given(PRICES, PRICES, TOKENS, TOKENS)
def test_a_cost_is_what_decimal_arithmetic_says(inward: Decimal, outward: Decimal, read: int, written: int) -> None:
    """No binary fraction is in between: the text of the cost is the exact number."""
    model = replace(MODEL, price_per_million_input=float(inward), price_per_million_output=float(outward))

    cost = cost_of(Usage(read, written), model)

    assert cost is not None
    assert Decimal(in_usd(cost)) == (read * inward + written * outward) / 1_000_000


@pytest.mark.parametrize(
    ("usd", "text"), [(0.0, "0.00"), (0.1, "0.10"), (12.5, "12.50"), (1e-12, "0.000000000001"), (0.00045, "0.00045")]
)
def test_an_amount_is_taken_and_shown_as_it_is_written(usd: float, text: str) -> None:
    """Without what a binary fraction would add."""
    assert in_usd(units(usd)) == text


def test_a_price_that_is_needed_and_unknown_makes_the_cost_unknown() -> None:
    """One that is not needed does not."""
    half = replace(MODEL, price_per_million_input=2.0)

    assert cost_of(Usage(10, 1), half) is None
    assert cost_of(Usage(10, 0), half) == units(0.00002)


def test_the_sum_of_costs_is_unknown_if_one_of_them_is() -> None:
    """Unless that one has no tokens."""
    known, unknown = Usage(1, 1, cost=5), Usage(1, 1)

    assert [(known + known).cost, (known + unknown).cost, (Usage() + known).cost] == [10, None, 5]
