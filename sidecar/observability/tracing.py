"""OpenTelemetry's gRPC instrumentation, where the operator switches it on.

Off by default, and then nothing of OpenTelemetry is loaded: a span costs about a third of what a small call does. Spans
go to an OTLP endpoint if one is set, else to the log.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import grpc
from opentelemetry.instrumentation.grpc._aio_server import (
    OpenTelemetryAioServerInterceptor,
    _OpenTelemetryAioServicerContext,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from sidecar.observability import names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.settings import SettingsProblem, TelemetrySettings

SERVICE: Final = "dispatch-sidecar"
NANOSECONDS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Tracing:
    """What makes spans of calls.

    Attributes:
        interceptor: for every gRPC server.
    """

    interceptor: grpc.aio.ServerInterceptor
    provider: TracerProvider

    def close(self) -> None:
        """Export what is waiting."""
        self.provider.shutdown()


def make_tracing(settings: TelemetrySettings) -> Tracing:
    """Return the instrumentation. Raises `SettingsProblem` if the exporter is not installed."""
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.trace_ratio)),
        resource=Resource.create({SERVICE_NAME: SERVICE}),
        shutdown_on_exit=False,
    )
    if settings.otlp_endpoint is None:
        provider.add_span_processor(SimpleSpanProcessor(LoggedSpans()))
    else:
        provider.add_span_processor(BatchSpanProcessor(_otlp(settings.otlp_endpoint)))
    make: Callable[..., grpc.aio.ServerInterceptor] = SpansOfWrittenStreams
    return Tracing(make(provider.get_tracer(SERVICE)), provider)


class SpansOfWrittenStreams(OpenTelemetryAioServerInterceptor):
    """OpenTelemetry's interceptor, for streams that are written: its own iterates over them, and fails every one."""

    def _intercept_aio_server_stream(
        self, behavior: Callable[[bytes, Any], Awaitable[None]], handler_call_details: grpc.HandlerCallDetails
    ) -> Callable[[bytes, Any], Awaitable[None]]:
        start_span: Callable[..., Any] = self._start_span
        seen_by_span: Callable[..., Any] = _OpenTelemetryAioServicerContext

        async def traced(request: bytes, context: Any) -> None:
            with (
                self._set_remote_context(context),
                start_span(handler_call_details, context, set_status_on_exception=False) as span,
            ):
                await behavior(request, seen_by_span(context, span))

        return traced


class LoggedSpans(SpanExporter):
    """Writes each sampled span to the log; that only puts a record into a queue."""

    def __init__(self) -> None:
        self._log = StructuredLog(ALWAYS)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write them."""
        for span in spans:
            context = span.get_span_context()
            parent = span.parent
            self._log.info(
                names.SPAN,
                span.name,
                trace_id=f"{context.trace_id:032x}" if context else None,
                span_id=f"{context.span_id:016x}" if context else None,
                parent_id=f"{parent.span_id:016x}" if parent else None,
                seconds=((span.end_time or 0) - (span.start_time or 0)) / NANOSECONDS,
                status=span.status.status_code.name,
            )
        return SpanExportResult.SUCCESS


def _otlp(endpoint: str) -> SpanExporter:
    try:  # not among the sidecar's own dependencies: who sends OTLP installs it
        exporters = import_module("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
    except ImportError:
        raise SettingsProblem(
            ["telemetry.otlp_endpoint: install the package opentelemetry-exporter-otlp-proto-grpc, or leave it out"]
        ) from None
    exporter: SpanExporter = exporters.OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"))
    return exporter
