import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from subagents_loadgen.histogram import Histogram

PRECISION = 1 / 1024
DURATIONS = st.lists(st.integers(0, 10**13), min_size=1, max_size=300)
"""Nanoseconds up to almost three hours."""


def of(nanoseconds: list[int]) -> Histogram:
    """Return a histogram of these durations."""
    histogram = Histogram()
    for one in nanoseconds:
        histogram.record(one / 1e9)
    return histogram


@given(values=DURATIONS, percent=st.one_of(st.sampled_from([50.0, 90.0, 99.0, 99.9, 100.0]), st.floats(0.01, 100)))
@example(values=[0], percent=50.0)
@example(values=list(range(1, 1001)), percent=99.9)
@example(values=[2047, 2048, 2049, 4095, 4096], percent=50.0)
def test_a_percentile_is_never_below_the_exact_one_and_hardly_above(values: list[int], percent: float) -> None:
    """Any durations, any percentile: nearest rank over the sorted values is the truth."""
    rank = max(1, math.ceil(Fraction(str(percent)) * len(values) / 100))
    exact = sorted(values)[rank - 1]
    found = round(of(values).percentile(percent) * 1e9)
    assert exact <= found <= exact * (1 + PRECISION)


@given(values=DURATIONS)
def test_count_mean_and_bounds_are_exact(values: list[int]) -> None:
    """They are not taken from the buckets."""
    histogram = of(values)
    assert histogram.count == len(values)
    assert round(histogram.least * 1e9) == min(values)
    assert round(histogram.most * 1e9) == max(values)
    assert histogram.mean == pytest.approx(sum(values) / len(values) / 1e9)


@given(values=DURATIONS)
def test_the_plot_shows_every_duration_under_its_bound(values: list[int]) -> None:
    """No bar is left out, also an empty one between two others."""
    bars = list(of(values).by_power_of_two())
    assert sum(count for _, count in bars) == len(values)
    assert all(later == pytest.approx(2 * earlier) for (earlier, _), (later, _) in pairwise(bars))
    assert bars[-1][0] >= max(values) / 1e9


def test_nothing_has_percentiles_of_nought() -> None:
    """A run in which nothing was measured can still be reported."""
    assert (Histogram().percentile(99), Histogram().mean, list(Histogram().by_power_of_two())) == (0.0, 0.0, [])


def test_a_clock_read_in_the_wrong_order_counts_as_nought() -> None:
    """A duration of less than nothing."""
    histogram = Histogram()
    histogram.record(-1e-9)
    assert (histogram.count, histogram.most) == (1, 0.0)
