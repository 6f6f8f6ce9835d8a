"""Converts a snapshot of all metrics to the data model of OpenTelemetry's exporters."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from sidecar.observability.call_names import OTLP_ATTRIBUTES
from sidecar.observability.otlp.readings import Distribution, MetricsSnapshot, Number


def metrics_data(reading: MetricsSnapshot, resource: Resource, scope: InstrumentationScope) -> MetricsData:
    """Return the snapshot as OpenTelemetry data. Counts are cumulative since the process began."""
    # Without a schema (the two empty texts): the names of most metrics are the sidecar's own.
    # A metric without a series is left out: OpenTelemetry has no form for it.
    converted = [_metric(each, reading) for each in reading.metrics if each.series]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, converted, "")], "")])


def _metric(metric: Number | Distribution, reading: MetricsSnapshot) -> Metric:
    data = _histogram(metric, reading) if isinstance(metric, Distribution) else _numbers(metric, reading)
    return Metric(metric.name, metric.help, "", data)


def _attributes(labels: Sequence[str], key: Sequence[str]) -> dict[str, str]:
    """Return the labels with the names of OpenTelemetry's conventions; empty values of such labels are left out."""
    named = zip(labels, key, strict=True)
    return {OTLP_ATTRIBUTES.get(label, label): value for label, value in named if value or label not in OTLP_ATTRIBUTES}


def _numbers(metric: Number, reading: MetricsSnapshot) -> Any:
    """Convert a counter or a gauge."""
    points = [
        NumberDataPoint(_attributes(metric.labels, key), reading.begun, reading.taken, value)
        for key, value in metric.series
    ]
    # Cumulative, as Prometheus counts: a reading that is lost takes nothing from the next one.
    return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if metric.rises else Gauge(points)


def _histogram(metric: Distribution, reading: MetricsSnapshot) -> Histogram:
    """Convert a histogram. Minimum and maximum are missing because they are not stored."""
    # The class demands both fields; None leaves them out of the message.
    unknown: Any = None
    points = [
        HistogramDataPoint(
            attributes=_attributes(metric.labels, key),
            start_time_unix_nano=reading.begun,
            time_unix_nano=reading.taken,
            count=sum(counts),
            sum=total,
            bucket_counts=counts,
            explicit_bounds=metric.bounds,
            min=unknown,
            max=unknown,
        )
        for key, counts, total in metric.series
    ]
    return Histogram(points, AggregationTemporality.CUMULATIVE)
