"""Counters, histograms and gauges of the process, kept as plain numbers.

Counting an event costs a dict look-up and an addition: no call of a library, and no lock. Only the event loop's thread
may therefore use these objects. `exposition.py` formats the values when Prometheus requests them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import Struct, field

MOST_SERIES: Final = 2000
"""The most label sets of one metric. Further ones share a series, so that no caller can exhaust the memory."""
OTHER: Final = "other"
"""The value of each label in the series that all further label sets share."""

Labels = tuple[str, ...]


class Counter(Struct):
    """A value that only rises. `labels` names the parts of each key of `series`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    series: dict[Labels, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin at 0 if there are no labels: a series that appears with 1 has no increase in Prometheus."""
        if not self.labels:
            self.series[()] = 0

    def add(self, *key: str, by: float = 1) -> None:
        """Add to the counter."""
        series = self.series
        if key not in series:
            # Only for a new key, so that the usual case is one look-up.
            key = bounded(series, key)
            # The shared series may exist already.
            series.setdefault(key, 0)
        series[key] += by


class Buckets(Struct):
    """One histogram series: counts per bucket, the last one unbounded, and the sum."""

    counts: list[int]
    total: float = 0.0


class Histogram(Struct):
    """Counts values by size. `bounds` are inclusive upper ends, ascending."""

    name: str
    help: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()
    series: dict[Labels, Buckets] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin at 0 if there are no labels, as a counter does."""
        if not self.labels:
            self._begin(())

    def observe(self, value: float, *key: str) -> None:
        """Count one value."""
        # `or` is safe: a `Buckets` is never false.
        buckets = self.series.get(key) or self._begin(bounded(self.series, key))
        # `bisect_left`, because a bound belongs to its own bucket (`le` in Prometheus).
        buckets.counts[bisect_left(self.bounds, value)] += 1
        buckets.total += value

    def know(self, *key: str) -> None:
        """Create a series at 0, so that its first value is a visible rise."""
        if key not in self.series:
            self._begin(bounded(self.series, key))

    def _begin(self, key: Labels) -> Buckets:
        """Return the series of `key`, created at 0 if it does not exist."""
        # One bucket more than bounds: the last one counts the values above all bounds.
        return self.series.setdefault(key, Buckets([0] * (len(self.bounds) + 1)))


class Gauge(Struct, frozen=True):
    """A value that is read at each scrape. If `rises`, it is a counter that another object counts."""

    name: str
    help: str
    read: Callable[[], Mapping[Labels, float]]
    labels: tuple[str, ...] = ()
    rises: bool = False


Metric = Counter | Histogram | Gauge
MetricT = TypeVar("MetricT", Counter, Histogram, Gauge)


class Metrics:
    """All metrics of the process."""

    def __init__(self) -> None:
        self._metrics: list[Metric] = []

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Create a counter."""
        return self._keep(Counter(name, help_text, labels))

    def histogram(self, name: str, help_text: str, bounds: Sequence[float], *labels: str) -> Histogram:
        """Create a histogram."""
        return self._keep(Histogram(name, help_text, tuple(bounds), labels))

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge of one number."""
        self._keep(Gauge(name, help_text, lambda: {(): read()}))

    def gauges(self, name: str, help_text: str, read: Callable[[], Mapping[Labels, float]], *labels: str) -> None:
        """Add a gauge with a number for each label set."""
        self._keep(Gauge(name, help_text, read, labels))

    def counted_elsewhere(
        self, name: str, help_text: str, read: Callable[[], Mapping[Labels, float]], *labels: str
    ) -> None:
        """Add a counter for each label set; another object counts them."""
        # A counter in the output, although it is read like a gauge.
        self._keep(Gauge(name, help_text, read, labels, rises=True))

    def total(self, name: str) -> float:
        """Return the sum of a counter over all its series; 0 if there is none of that name."""
        return sum(sum(each.series.values()) for each in self if isinstance(each, Counter) and each.name == name)

    def __iter__(self) -> Iterator[Metric]:
        """Return the metrics in order of creation."""
        return iter(self._metrics)

    def _keep(self, metric: MetricT) -> MetricT:
        self._metrics.append(metric)
        return metric


def bounded(series: Mapping[Labels, object], key: Labels) -> Labels:
    """Return `key`, or the key of the shared series `OTHER` if there are too many series."""
    return key if key in series or len(series) < MOST_SERIES else (OTHER,) * len(key)
