"""What stands in for the machine: time that stands still, ids from a seed, no jitter. A call each, as the real ones."""

import asyncio
from datetime import UTC, datetime
from random import Random
from typing import Final

SINCE: Final = datetime(2026, 11, 2, 12, tzinfo=UTC)


class StillClock:
    """The time of the loop, and one wall time."""

    def now(self) -> datetime:
        """Return the same at all times."""
        return SINCE

    def monotonic(self) -> float:
        """Return the loop's own time."""
        return asyncio.get_running_loop().time()


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
