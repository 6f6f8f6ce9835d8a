"""Puts a reading of all metrics into the outbox, from time to time and at the end."""

import asyncio
import time

from sidecar.observability.metrics import Metrics
from sidecar.observability.otlp.readings import reading_of
from sidecar.observability.outbox import Outbox, Signal


class MetricsPump:
    """Reads in the event loop, since that is where things are counted.

    Args:
        interval: seconds between two readings.
    """

    def __init__(self, metrics: Metrics, outbox: Outbox, interval: float) -> None:
        self._metrics = metrics
        self._outbox = outbox
        self._interval = interval
        self._begun = time.time_ns()

    async def run(self) -> None:
        """Read for ever; owned by the supervisor."""
        while True:
            self.read()
            await asyncio.sleep(self._interval)

    def read(self) -> None:
        """Read once."""
        self._outbox.put(Signal.METRICS, reading_of(self._metrics, self._begun))
