"""How long calls wait to be served, and which are refused because of a standing queue.

Under a load that cannot be carried, calls wait until their deadlines: those that are served have no time left, and
those behind them wait in vain. If turns that are not bound yet are refused at once, bound turns are completed in time.

A late call alone does not show such a load: after one pause of the event loop every call that came meanwhile is late,
and all are served within moments. A queue stands if it is long, and if only late calls have come out of it for as long
as a late call waits: the shortest wait counts, not the longest. Source: Nichols, Jacobson, "Controlling Queue Delay",
ACM Queue, 2012.
"""

from collections import deque
from typing import Final

LATE: Final = 0.5
"""Share of the longest wait, beyond which a call is late."""
LONG_QUEUE: Final = 16
"""Calls. A shorter queue is no overload: the machine is slow, or pauses, and refusing turns makes it no faster."""


class _LateCalls:
    """The late calls of one method since the last one that was in time.

    Attributes:
        since: when the first of them was served.
        served: when the last ones were, oldest first.
    """

    __slots__ = ("served", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        # A longer memory is not needed: a queue is long if so many were served in the time that one call has waited.
        self.served = deque[float](maxlen=LONG_QUEUE)


class WaitingCalls:
    """The waits of the calls of one listener.

    Args:
        longest: seconds that a call may wait that begins work, while its queue stands.
    """

    def __init__(self, longest: float) -> None:
        self._longest, self._late = longest, longest * LATE
        self._late_calls: dict[str, _LateCalls] = {}  # by method, because each has a queue of its own
        # Until then no new turn is bound: calls of bound turns are late, and they go first.
        self._closed_until = 0.0

    def refuses(self, method: str, waited: float | None, now: float, *, begins_work: bool) -> bool:
        """Note how long a call has waited, and return whether it is refused.

        A call that begins work is refused if it waited too long in a queue that stands, or if a queue of bound turns'
        calls stands. No other call is refused.

        Args:
            method: its name.
            waited: seconds; None: unknown.
            now: of a clock that is never set.
            begins_work: whether it binds a turn.
        """
        if waited is None:
            # An unknown wait is no evidence, neither for nor against a queue.
            return begins_work and now < self._closed_until
        stands = False
        if waited > self._late:
            stands = self._stands(method, waited, now)
        else:
            # Of this method only: each method has its own queue, and a call in time says nothing about the others.
            self._late_calls.pop(method, None)
        if begins_work:
            return (stands and waited > self._longest) or now < self._closed_until
        if stands:
            # As long as this one has waited, those behind it take to be served.
            self._closed_until = max(self._closed_until, now + min(waited, self._longest))
        return False

    def _stands(self, method: str, waited: float, now: float) -> bool:
        if (late := self._late_calls.get(method)) is None:
            late = self._late_calls[method] = _LateCalls(now)
        late.served.append(now)
        # Those that were served while this one waited were in the queue before it.
        long = len(late.served) == LONG_QUEUE and now - late.served[0] < waited
        # Both conditions: a single pause of the event loop makes many calls late, but not for so long; a slow trickle
        # is late for long, but is no queue.
        return long and now - late.since >= self._late
