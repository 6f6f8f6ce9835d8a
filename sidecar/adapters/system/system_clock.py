"""The clocks of the machine."""

import asyncio
from datetime import UTC, datetime


class SystemClock:
    """Wall time in UTC, and the running loop's monotonic time, which asyncio's own waits follow."""

    def now(self) -> datetime:
        """Return the wall clock's time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of the running loop's clock. Raises `RuntimeError` outside a loop."""
        return asyncio.get_running_loop().time()
