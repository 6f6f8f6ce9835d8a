"""Which calls are being served: what a drain waits for. gRPC's own count is not used, it misses what outlives it."""

import asyncio
from collections import Counter


class InFlight:
    """Calls that have come in and have not been answered; health and reflection are not among them."""

    def __init__(self) -> None:
        self._by_method: Counter[str] = Counter()
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def by_method(self) -> dict[str, int]:
        """Return how many there are of each method, for the log of a drain that ran out of time."""
        return {method: count for method, count in sorted(self._by_method.items()) if count}

    def begin(self, method: str) -> None:
        """Count one call; `end` has to follow."""
        self._by_method[method] += 1
        self._count += 1
        self._idle.clear()

    def end(self, method: str) -> None:
        """Count it as answered."""
        self._by_method[method] -= 1
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def idle(self) -> None:
        """Return once there is none."""
        await self._idle.wait()
