"""The clocks of the machine."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Wall time in UTC, and the machine's monotonic time, on which asyncio's and uvloop's own waits are based."""

    def now(self) -> datetime:
        """Return the wall clock's time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of the monotonic clock.

        The loop's own `time()` has the same base, but uvloop's stands still within a turn of the loop and counts whole
        milliseconds: good enough to wait by, too coarse to measure by.
        """
        return time.monotonic()
