"""What stands in for the machine, with as many calls: time that stands still, ids from a seed, no jitter."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import repeat
from random import Random
from typing import Final

from tests.budgets.meter import NOW

SINCE: Final = datetime(2026, 11, 2, 12, tzinfo=UTC)


class StillClock:
    """One time of the loop and one wall time, given by functions of C, as `SystemClock` does."""

    now: Callable[[], datetime] = staticmethod(repeat(SINCE).__next__)
    monotonic: Callable[[], float] = staticmethod(repeat(NOW).__next__)


class SeededIds:
    """Ids as long as real ones."""

    def __init__(self, seed: int) -> None:
        """Begin anew."""
        self._random = Random(seed)

    def new(self, kind: str) -> str:
        """Return the next one."""
        return f"{kind}-{self._random.getrandbits(88):022x}"


class NoChance:
    """No jitter."""

    def uniform(self, low: float, high: float) -> float:
        """Return the least."""
        return low
