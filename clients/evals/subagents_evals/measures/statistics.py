"""Confidence intervals of shares and means, and the test for paired outcomes."""

import math
import random
from collections.abc import Sequence
from typing import Final

Z: Final = 1.959963984540054
"""Quantile of the normal distribution for a two-sided interval of 95 %."""
RESAMPLES: Final = 1000
SEED: Final = 20_260_701


def wilson(hits: float, of: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share; (0, 1) without observations.

    Args:
        hits: number of successes; may be a fraction, if repetitions count as their mean.
        of: number of observations.
    """
    if of <= 0:
        return 0.0, 1.0
    share = hits / of
    middle = share + Z * Z / (2 * of)
    spread = Z * math.sqrt(share * (1 - share) / of + Z * Z / (4 * of * of))
    divisor = 1 + Z * Z / of
    return max(0.0, (middle - spread) / divisor), min(1.0, (middle + spread) / divisor)


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean, by resampling with a fixed seed; (nan, nan) without values."""
    if not values:
        return math.nan, math.nan
    chance = random.Random(SEED)  # noqa: S311  statistics, not secrets
    means = sorted(math.fsum(chance.choices(values, k=len(values))) / len(values) for _ in range(RESAMPLES))
    return means[round(0.025 * (RESAMPLES - 1))], means[round(0.975 * (RESAMPLES - 1))]


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    Args:
        only_first: cases that only the first of two systems got right.
        only_second: cases that only the second got right.
    """
    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    tail = sum(math.comb(discordant, count) for count in range(min(only_first, only_second) + 1))
    return float(min(1.0, 2 * tail / 2**discordant))


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of the values lies (nearest rank); None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
