"""Intervals and tests, against values from the literature and against counting."""

from itertools import product
from math import comb

import pytest

from subagents_evals.measures.statistics import bootstrap, mcnemar, quantile, wilson


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_intervals_are_those_of_the_literature(hits: int, of: int, low: float, high: float) -> None:
    """The last row is from Newcombe (1998), method 3."""
    assert wilson(hits, of) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_of_nothing_nothing_is_known() -> None:
    """The widest interval, and no quantile."""
    assert wilson(0, 0) == (0.0, 1.0)
    assert quantile([], 0.5) is None


def test_mcnemar_is_the_exact_binomial_test_of_the_discordant_pairs() -> None:
    """For all small tables, against counting every outcome of fair coins."""
    for worse, better in product(range(9), repeat=2):
        number = worse + better
        extreme = [one for one in range(number + 1) if abs(one - number / 2) >= abs(worse - number / 2)]
        expected = sum(comb(number, one) for one in extreme) / 2**number
        assert mcnemar(worse, better) == pytest.approx(expected)


def test_a_bootstrap_is_repeatable_and_holds_the_mean() -> None:
    """The same values, the same interval."""
    values = [0.0, 0.2, 0.4, 0.9, 1.0, 1.0]
    low, high = bootstrap(values)

    assert bootstrap(values) == (low, high)
    assert low < sum(values) / len(values) < high


def test_a_quantile_is_one_of_the_values() -> None:
    """Nearest rank."""
    assert [quantile([3.0, 1.0, 2.0, 4.0], share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 2.0, 4.0, 4.0]
