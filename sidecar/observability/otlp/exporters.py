"""Sends spans, log records and metrics over OTLP/gRPC, from the thread that empties the outbox.

Import this module after the sidecar listens, and only if an endpoint is configured: OpenTelemetry takes long to load,
and the exporters are an optional extra.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import set_span_in_context

from sidecar.core.decoding import from_json_by_pairs
from sidecar.observability.otlp.otlp_metrics import metrics_data
from sidecar.observability.outbox import Ship, Signal
from sidecar.observability.redaction import Redactor
from sidecar.observability.spans import remote
from sidecar.operations.trace_context import NO_TRACE

SENDER: Final = "dispatch-sidecar"
"""The name of the instrumentation scope, and of the tracer."""
SCOPE: Final = InstrumentationScope(SENDER)
SEND_SECONDS: Final = 3
"""Seconds after which an attempt to send a batch is given up. The queue accepts new items meanwhile."""
NANOSECONDS: Final = 1_000_000_000
SEVERITY: Final = {
    logging.INFO: SeverityNumber.INFO,
    logging.WARNING: SeverityNumber.WARN,
    logging.ERROR: SeverityNumber.ERROR,
}


class LogSender:
    """Sends log records to one endpoint.

    Args:
        endpoint: `http://…` without, `https://…` with TLS.
        resource: describes this process, as the sender.
        redactor: removes secrets from log records.
    """

    def __init__(self, endpoint: str, resource: Resource, redactor: Redactor) -> None:
        _silence()
        self._resource = resource
        self._redactor = redactor
        self._exporter = OTLPLogExporter(**_to(endpoint))

    def send(self, records: Sequence[logging.LogRecord]) -> bool:
        """Send a batch; return whether the collector accepted it."""
        batch = [self._log(record) for record in records]
        try:
            return self._exporter.export(batch) is LogRecordExportResult.SUCCESS
        except ValueError:
            # The thread of an abandoned batch has replaced the channel while this thread used it; gRPC raises this. The
            # second attempt uses the new channel.
            return self._exporter.export(batch) is LogRecordExportResult.SUCCESS

    def close(self) -> None:
        """Abort the batch that is being sent."""
        # Ends its retries at once; otherwise `close` would wait until they are used up.
        self._exporter.shutdown()

    def _log(self, record: logging.LogRecord) -> ReadableLogRecord:
        """Convert an event to OpenTelemetry. Its fields become attributes, redacted like the lines of the log."""
        # Through JSON text, because the redactor works on text, and a secret may be deep inside a field.
        fields = from_json_by_pairs(self._redactor.clean(json.dumps(getattr(record, "fields", {}), default=str)), dict)
        converted = LogRecord(
            timestamp=int(record.created * NANOSECONDS),
            # An explicit context: the thread that sends has none of the task that logged.
            context=set_span_in_context(remote(getattr(record, "of_trace", NO_TRACE)), Context()),
            severity_number=SEVERITY.get(record.levelno, SeverityNumber.UNSPECIFIED),
            severity_text=record.levelname,
            body=self._redactor.clean(record.getMessage()),
            attributes=fields,
            event_name=getattr(record, "event", ""),
        )
        return ReadableLogRecord(converted, self._resource, SCOPE)


class Collector:
    """The exporters to one endpoint.

    Args:
        endpoint: `http://…` without, `https://…` with TLS.
        resource: describes this process, as the sender.
        redactor: removes secrets from log records.
    """

    def __init__(self, endpoint: str, resource: Resource, redactor: Redactor) -> None:
        _silence()
        self._resource = resource
        self._spans = OTLPSpanExporter(**_to(endpoint))
        self._logs = LogSender(endpoint, resource, redactor)
        self._metrics = OTLPMetricExporter(**_to(endpoint))

    @property
    def ship(self) -> Mapping[Signal, Ship]:
        """The function that sends each signal."""
        return {Signal.SPANS: self._send_spans, Signal.LOGS: self._logs.send, Signal.METRICS: self._send_metrics}

    def close(self) -> None:
        """Abort the batch that is being sent."""
        self._logs.close()
        for exporter in (self._spans, self._metrics):
            exporter.shutdown()

    def _send_spans(self, spans: Sequence[Any]) -> bool:
        return self._spans.export(spans) is SpanExportResult.SUCCESS

    def _send_metrics(self, readings: Sequence[Any]) -> bool:
        """Send the newest reading only, because it includes the older ones."""
        return self._metrics.export(metrics_data(readings[-1], self._resource, SCOPE)) is MetricExportResult.SUCCESS


def _silence() -> None:
    """Silence the exporters' own logs: `sidecar.telemetry` and the anomalies report a dead collector once."""
    logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)


def _to(endpoint: str) -> dict[str, Any]:
    """Return the arguments that every exporter takes: where to send, and for how long to try."""
    # The exporters use TLS unless they are told that the endpoint has none.
    return {"endpoint": endpoint, "insecure": endpoint.startswith("http://"), "timeout": SEND_SECONDS}
