"""Latencies counted in buckets whose width grows with the value, so that every percentile is exact to 0.1 %."""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

PRECISION_BITS: Final = 11
"""Buckets per power of two: half of 2 to this; the relative error is below 2 to the power of 1 - this."""
_HALF: Final = 1 << (PRECISION_BITS - 1)
NANOSECONDS: Final = 1e9


class Histogram:
    """Counts durations of any range; stores one number for each bucket that has durations.

    Attributes:
        count: number of recorded durations.
    """

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self._total = 0
        self._least = 0
        self._most = 0

    def record(self, seconds: float) -> None:
        """Count one duration, in seconds. A negative duration counts as 0."""
        value = max(0, round(seconds * NANOSECONDS))
        self._buckets[_bucket_of(value)] += 1
        self._least = value if self.count == 0 else min(self._least, value)
        self._most = max(self._most, value)
        self._total += value
        self.count += 1

    def percentile(self, percent: float) -> float:
        """Return the smallest duration, in seconds, that `percent` of all do not exceed; 0 if there is none.

        Never less than the exact one, and at most a thousandth more.

        Args:
            percent: more than 0, at most 100.
        """
        rank = max(1, math.ceil(Fraction(str(percent)) * self.count / 100))
        passed = 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= rank:
                return min(_highest_of(bucket), self._most) / NANOSECONDS
        return 0.0

    @property
    def mean(self) -> float:
        """The exact mean, in seconds; 0 if there is none."""
        return self._total / self.count / NANOSECONDS if self.count else 0.0

    @property
    def least(self) -> float:
        """The exact minimum, in seconds."""
        return self._least / NANOSECONDS

    @property
    def most(self) -> float:
        """The exact maximum, in seconds."""
        return self._most / NANOSECONDS

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Yield the highest duration of each bucket, in seconds, and how many it holds, from the least to the most."""
        for bucket in sorted(self._buckets):
            yield min(_highest_of(bucket), self._most) / NANOSECONDS, self._buckets[bucket]

    def by_power_of_two(self) -> Iterator[tuple[float, int]]:
        """Yield an upper bound in seconds and how many lie between it and its half, from the least to the most."""
        powers: Counter[int] = Counter()
        for bucket, count in self._buckets.items():
            powers[_highest_of(bucket).bit_length()] += count
        for power in range(min(powers, default=0), max(powers, default=-1) + 1):
            yield (1 << power) / NANOSECONDS, powers[power]


def _bucket_of(value: int) -> int:
    """Return the bucket: the value's leading bits, and how many follow them."""
    shift = max(0, value.bit_length() - PRECISION_BITS)
    return shift * _HALF + (value >> shift)


def _highest_of(bucket: int) -> int:
    """Return the largest value of a bucket."""
    shift = max(0, bucket // _HALF - 1)
    return ((bucket - shift * _HALF + 1) << shift) - 1
