"""Removes idle episodes, i.e. conversations without new turns, from an episode memory in a database, every hour."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

SWEEP_SECONDS: Final = 3600.0
AT_ONCE: Final = 100
"""Maximum number of episodes that one transaction removes. Other writers wait only for one such transaction."""


class IdleEpisodes:
    """Removes idle episodes until it is closed.

    Args:
        remove: removes, in one transaction, at most a number of episodes without turns since a time; returns how many.
        now: the wall clock.
        report: receives what failed and the name of the exception, for a log.
        failures: exceptions of `remove` that do not end the loop: the removal is tried again an hour later.
    """

    def __init__(
        self,
        remove: Callable[[datetime, int], Awaitable[int]],
        now: Callable[[], datetime],
        report: Callable[[str, str], None],
        failures: tuple[type[Exception], ...],
    ) -> None:
        self._remove = remove
        self._now = now
        self._report = report
        self._failures = failures
        self._sweeping: asyncio.Task[None] | None = None

    def start(self, idle: timedelta) -> None:
        """Begin to remove episodes that were idle for this time."""
        self._sweeping = asyncio.create_task(self._sweep(idle), name="forget idle episodes")

    async def forget(self, idle: timedelta) -> int:
        """Remove all episodes that were idle for this time; return how many."""
        # Computed once: otherwise episodes that become idle during the removal would prolong it.
        removed, before = 0, self._now() - idle
        while count := await self._remove(before, AT_ONCE):
            removed += count
        return removed

    async def close(self) -> None:
        """Stop; may be called twice."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
            self._sweeping = None

    async def _sweep(self, idle: timedelta) -> None:
        while True:
            try:
                await self.forget(idle)
            # The loop continues: an unavailable database must not end the removal for the rest of the process.
            except self._failures as error:
                self._report("forget idle episodes", type(error).__name__)
            await asyncio.sleep(SWEEP_SECONDS)
