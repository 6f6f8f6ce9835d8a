"""Problems of turns and data that an operator should look at; records and certificates report their own."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sidecar.observability import names
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.operations.turn.state.open_turns import Turns

MANY_IDLE: Final = 0.8
"""Share of the limit of idle turns. Above it, operators are warned, before the oldest turns are ended."""
INCIDENT_SHOWN: Final = 3600.0
"""Seconds for which an incident is shown."""


def watch_turns_and_data(metrics: Metrics, readiness: Readiness, turns: Turns) -> None:
    """Add the problems of turns and data to the readiness page."""
    readiness.watch(partial(_too_many_idle, turns))
    readiness.watch(IncidentWatch(metrics, time.monotonic).attention)


class IncidentWatch:
    """Reports for an hour that responses were withheld because they may belong to another user."""

    def __init__(self, metrics: Metrics, monotonic: Callable[[], float]) -> None:
        self._metrics, self._monotonic = metrics, monotonic
        # The number of incidents at the last look, and the time of the look that found the newest.
        self._known = 0.0
        self._since = 0.0

    def attention(self) -> Sequence[str]:
        """Return the problem, if any. An incident counts from the first call of this method after it."""
        count = self._metrics.total(names.SECURITY_INCIDENTS)
        if count != self._known:
            self._known, self._since = count, self._monotonic()
        # Without incidents there is nothing to say; after an hour, the log is the place to look.
        if not count or self._monotonic() - self._since > INCIDENT_SHOWN:
            return ()
        text = f"{count:.0f} responses of data services were withheld, because they may belong to another user"
        return (f"{text}: find `security.incident` in the log",)


def _too_many_idle(turns: Turns) -> Sequence[str]:
    # Before the limit is reached: at it, the oldest turns are ended, and their users notice.
    if turns.idle < MANY_IDLE * turns.most_idle:
        return ()
    text = f"{turns.idle} turns are open in which nothing runs; at {turns.most_idle} the oldest are ended"
    return (f"{text}: does a consumer-agent not end its turns?",)
