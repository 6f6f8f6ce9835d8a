"""OpenTelemetry's gRPC instrumentation, where the operator switches it on.

Off by default, and then nothing of OpenTelemetry is loaded: a span costs about a third of what a small call does. Spans
go to the outbox if an OTLP endpoint is set, else to the log.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from opentelemetry.instrumentation.grpc._aio_server import (
    OpenTelemetryAioServerInterceptor,
    _OpenTelemetryAioServicerContext,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased

from sidecar.observability import names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.observability.outbox import Outbox, Signal
from sidecar.settings import TelemetrySettings

SERVICE: Final = "dispatch-sidecar"
INSTANCE: Final = "service.instance.id"
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


def make_tracing(settings: TelemetrySettings, outbox: Outbox | None) -> Tracing:
    """Return the instrumentation; without an outbox, spans go to the log."""
    processor = SimpleSpanProcessor(LoggedSpans()) if outbox is None else OutboxSpans(outbox)
    provider = provider_of(ParentBased(TraceIdRatioBased(settings.trace_ratio)), sender(), processor)
    make: Callable[..., grpc.aio.ServerInterceptor] = SpansOfWrittenStreams
    return Tracing(make(provider.get_tracer(SERVICE)), provider)


def sender() -> Resource:
    """Return who sends: this process, under a name of its own."""
    return Resource.create({SERVICE_NAME: SERVICE, INSTANCE: secrets.token_hex(8)})


def provider_of(sampler: Sampler, resource: Resource, processor: SpanProcessor) -> TracerProvider:
    """Return a provider that nothing else in the process knows of."""
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


class OutboxSpans(SpanProcessor):
    """Lets ended spans wait to be sent."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def on_end(self, span: ReadableSpan) -> None:
        """Take one that is sampled."""
        context = span.get_span_context()
        if context is not None and context.trace_flags.sampled:
            self._outbox.put(Signal.SPANS, span)


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
