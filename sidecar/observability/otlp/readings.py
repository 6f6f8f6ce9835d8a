"""Copies the values of all metrics at one moment, so that the thread that sends them can read the copy."""

import asyncio
import time
from collections.abc import Sequence

from msgspec import Struct

from sidecar.observability.metrics import Counter, Gauge, Histogram, Labels, Metrics
from sidecar.observability.outbox import Outbox, Signal


class MetricsPump:
    """Reads the metrics in the event loop, because they are counted there without locks.

    Args:
        metrics: what is read.
        outbox: receives each snapshot.
        interval: seconds between two readings.
    """

    def __init__(self, metrics: Metrics, outbox: Outbox, interval: float) -> None:
        self._metrics = metrics
        self._outbox = outbox
        self._interval = interval
        # Constant for the process: a collector detects a restart by a later begin.
        self._begun = time.time_ns()

    async def run(self) -> None:
        """Read for ever; the supervisor owns this loop."""
        while True:
            self.read()
            await asyncio.sleep(self._interval)

    def read(self) -> None:
        """Read the metrics once."""
        self._outbox.put(Signal.METRICS, reading_of(self._metrics, self._begun))


class Number(Struct, frozen=True):
    """A counter (if `rises`) or a gauge, with the value of each of its series."""

    name: str
    help: str
    labels: tuple[str, ...]
    rises: bool
    series: Sequence[tuple[Labels, float]]


class Distribution(Struct, frozen=True):
    """A histogram. Each series has its counts by bucket, and the sum."""

    name: str
    help: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]
    series: Sequence[tuple[Labels, tuple[int, ...], float]]


class MetricsSnapshot(Struct, frozen=True):
    """All metrics. Times are nanoseconds since 1970; counters began at `begun`."""

    begun: int
    taken: int
    metrics: Sequence[Number | Distribution]


def reading_of(metrics: Metrics, begun: int) -> MetricsSnapshot:
    """Read all metrics. Must be called in the event loop that counts them."""
    return MetricsSnapshot(begun, time.time_ns(), [_read(metric) for metric in metrics])


def _read(metric: Counter | Histogram | Gauge) -> Number | Distribution:
    """Return a copy of one metric."""
    if isinstance(metric, Histogram):
        # Copied: the loop keeps counting while another thread sends.
        series = [(key, tuple(each.counts), each.total) for key, each in metric.series.items()]
        return Distribution(metric.name, metric.help, metric.labels, metric.bounds, series)
    if isinstance(metric, Counter):
        # A list, for the same reason.
        return Number(metric.name, metric.help, metric.labels, True, list(metric.series.items()))
    return Number(metric.name, metric.help, metric.labels, metric.rises, list(metric.read().items()))
