"""Detects a sub-agent that has run without a report for so long that users should be informed.

Source: PC2-NFR-5, PC2-D-57.

Each further interval of the same sub-agent is twice as long as the one before, until it reports itself: a long run is
then neither silent nor noisy. Times are monotonic seconds.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from sidecar.core.status_events.relay import ChildReporter

STILL_WORKING: Final = "still_working"
"""The event type that is reported for a silent sub-agent."""


class _Silence(Struct):
    reporter: ChildReporter
    wait: float
    due: float


class SilenceMonitor:
    """The running sub-agents of one dispatch, and how long each has been silent.

    Args:
        after: seconds of silence, above 0.
    """

    def __init__(self, after: float) -> None:
        """Begin with no running sub-agent."""
        self._after = after
        self._running: dict[int, _Silence] = {}

    def began(self, reporter: ChildReporter, now: float) -> None:
        """Start to observe a sub-agent that runs from now on."""
        # By call and not by slot: one sub-agent may run twice in a dispatch.
        self._running[reporter.index] = _Silence(reporter, self._after, now + self._after)

    def broken(self, index: int, now: float) -> None:
        """Restart the first interval: the sub-agent has sent a report that is passed on."""
        if (silence := self._running.get(index)) is not None:
            # A sub-agent that reports again is not treated as one that has been silent for long.
            silence.wait, silence.due = self._after, now + self._after

    def ended(self, index: int) -> None:
        """Stop observing a sub-agent that has its outcome, or never ran."""
        self._running.pop(index, None)

    def next_due(self) -> float | None:
        """Return when the first silent sub-agent must be reported; None if none runs."""
        return min((silence.due for silence in self._running.values()), default=None)

    def take_due(self, now: float) -> Sequence[ChildReporter]:
        """Return the sub-agents that are due, in the order in which they began; double the interval of each."""
        due = [silence for silence in self._running.values() if silence.due <= now]
        for silence in due:
            silence.wait *= 2
            # From now and not from the old due time: after a long pause of the event loop, several intervals would be
            # due at once.
            silence.due = now + silence.wait
        return [silence.reporter for silence in due]
