"""Tells whether this process may still act on the dispatches that it owns.

Processes that share a database renew a lease. A process that was suspended or disconnected for longer than its lease
may have been considered dead, and its dispatches taken over. The record rejects the appends of such a process; the
lease rejects its other actions, the data calls of its sub-agents. Source: DESIGN section 10.
"""

import asyncio

from sidecar.core.errors import StoreUnavailable
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.record.ports import Journal


class Lease:
    """The lease of this process.

    Args:
        seconds: how long the lease is valid after each confirmation; None: no other process can take anything over.
    """

    def __init__(self, journal: Journal, seconds: float | None, *, clock: Clock, recorder: Recorder) -> None:
        """Begin with a lease that is confirmed now, because the database was opened just before."""
        self._journal = journal
        self._seconds = seconds
        self._clock, self._recorder = clock, recorder
        self._confirmed = self._clock.monotonic()
        self._lapses = 0

    def held(self) -> bool:
        """Return whether the lease is valid."""
        # By the monotonic clock: a wall clock that is set back would make an expired lease valid again.
        return self._seconds is None or self._clock.monotonic() < self._confirmed + self._seconds

    def term(self) -> int:
        """Return a number that changes when an expired lease is regained: others may have taken over dispatches."""
        return self._lapses

    async def run(self) -> None:
        """Renew the lease three times in its length; the supervisor owns this loop."""
        while True:
            await self.renew()
            # Two renewals may fail before the lease expires. Without a lease, a renewal changes nothing.
            await asyncio.sleep((self._seconds or 3600.0) / 3)

    async def renew(self) -> None:
        """Renew the lease once. A failure is reported; the next attempt may succeed."""
        # Counted from before the request: the lease must expire here no later than in the database, whatever the answer
        # takes.
        began = self._clock.monotonic()
        try:
            await self._journal.renew_lease()
        except StoreUnavailable:
            self._recorder.anomaly("lease_not_renewed", "the store does not answer")
            return
        # The lease had expired: other sidecars may have taken over dispatches in the meantime. `term` changes, so that
        # holders of dispatches check their ownership again.
        # By this clock, a renewal that was in time but answered late counts as a lapse, too, which is the safe side.
        if not self.held():
            self._lapses += 1
        self._confirmed = began
