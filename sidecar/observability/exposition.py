"""Writes the metrics in the Prometheus format, for `/metrics`.

Import this module after the sidecar listens, because its library takes longer to load than the rest of the start.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from sidecar.observability.metrics import Counter, Histogram, Metrics


def exposition(metrics: Metrics, accept: str) -> tuple[bytes, str]:
    """Return the page and its content type.

    Args:
        metrics: everything that is counted.
        accept: the scraper's `Accept` header. It selects the text or the OpenMetrics format, and whether names may
            contain dots.
    """
    # A registry for each page: the global one of the library would also show metrics that other libraries register.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics))
    encode, content_type = choose_encoder(accept)
    page: bytes = encode(registry)
    return page, content_type


class RecentExposition:
    """The last page, reused while it is recent, so that many scrapers cost no more than one.

    Args:
        metrics: everything that is counted.
        monotonic: the time in seconds.
        age: seconds for which the same page is returned again.
    """

    def __init__(self, metrics: Metrics, monotonic: Callable[[], float], age: float) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._age = age
        self._pages: dict[str, tuple[float, bytes]] = {}

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type. There are only a few content types, so the cache stays small."""
        _, content_type = choose_encoder(accept)
        now = self._monotonic()
        # By content type, because scrapers with different `Accept` headers get different pages.
        cached = self._pages.get(content_type)
        if cached is None or now - cached[0] >= self._age:
            self._pages[content_type] = cached = (now, exposition(self._metrics, accept)[0])
        return cached[1], content_type


class _Collector(Collector):
    """Gives the metrics to the library in its own types."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for metric in self._metrics:
            if isinstance(metric, Counter):
                counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                # Sorted, so that two pages can be compared line by line.
                for key, count in sorted(metric.series.items()):
                    counter.add_metric(key, count)
                yield counter
            elif isinstance(metric, Histogram):
                histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
                for key, buckets in sorted(metric.series.items()):
                    ends = [*map(str, metric.bounds), "+Inf"]
                    # Prometheus wants cumulative buckets. They are kept per bucket, so that a value costs only one
                    # addition.
                    rising = list(zip(ends, map(float, accumulate(buckets.counts)), strict=True))
                    histogram.add_metric(key, rising, buckets.total)
                yield histogram
            else:
                # The library appends `_total` to counters, and removes it first if the name has it.
                family = CounterMetricFamily if metric.rises else GaugeMetricFamily
                shown = family(metric.name, metric.help, labels=metric.labels)
                for key, value in sorted(metric.read().items()):
                    shown.add_metric(key, value)
                yield shown
