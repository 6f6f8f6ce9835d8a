"""The clocks of the machine, and ids and jitter from the operating system's entropy."""

import os
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from random import SystemRandom
from typing import Final


class SystemClock:
    """Wall time in UTC, and the machine's monotonic time, on which asyncio's and uvloop's own waits are based.

    Both are C functions, because a dispatch calls them twenty times.

    Attributes:
        now: returns the wall clock's time, aware, in UTC.
        monotonic: returns seconds of the monotonic clock. The loop's own `time()` has the same base, but uvloop's does
            not advance within a pass of the loop and counts whole milliseconds: enough for waits, too coarse for
            measurements.
    """

    now: Callable[[], datetime] = staticmethod(partial(datetime.now, UTC))
    monotonic: Callable[[], float] = staticmethod(time.monotonic)


CHARACTERS: Final = 22
"""Number of base64 characters, with six random bits each."""
IDS_AT_ONCE: Final = 128
"""Ids in one request to the system: a request for each id takes five times as long."""


class SystemIds:
    """Ids of 132 random bits: a grant must be unguessable, and no id may occur twice."""

    def __init__(self) -> None:
        self._ready: list[str] = []
        os.register_at_fork(after_in_child=self._ready.clear)  # a forked process would return the same ids

    def new(self, kind: str) -> str:
        """Return `<kind>-<22 characters>`."""
        if not self._ready:
            drawn = secrets.token_urlsafe(CHARACTERS * IDS_AT_ONCE * 3 // 4)
            self._ready.extend(drawn[at : at + CHARACTERS] for at in range(0, CHARACTERS * IDS_AT_ONCE, CHARACTERS))
        return f"{kind}-{self._ready.pop()}"


class SystemRandomness:
    """Jitter."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self._random.uniform(low, high)
