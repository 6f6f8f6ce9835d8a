"""Creates spans of RPCs with OpenTelemetry's gRPC instrumentation, if an operator enables it.

It is off by default, because a span costs about a third of a small call; no part of OpenTelemetry is then loaded. Spans
go to the outbox if an OTLP endpoint is set, or else to the log.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc import StatusCode
from opentelemetry.instrumentation.grpc._aio_server import (
    OpenTelemetryAioServerInterceptor,
    _OpenTelemetryAioServicerContext,
)
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.semconv._incubating.attributes.rpc_attributes import (
    RPC_GRPC_STATUS_CODE,
    RPC_METHOD,
    RPC_SERVICE,
    RPC_SYSTEM,
)
from opentelemetry.trace import Span, SpanKind, Status, Tracer
from opentelemetry.trace import StatusCode as SpanStatus

from sidecar.observability import event_names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.observability.outbox import Outbox, Signal
from sidecar.observability.spans import traceparent_of
from sidecar.operations.trace_context import LOGGED, TraceContext
from sidecar.settings import TelemetrySettings

SERVICE: Final = "dispatch-sidecar"
INSTANCE: Final = "service.instance.id"
NANOSECONDS: Final = 1e9
Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Tracing:
    """Creates the spans of calls.

    Attributes:
        interceptor: for every gRPC server. It skips session lanes, whose span would last as long as the lane.
        operation: creates the span of one operation of a lane, like the interceptor for calls.
    """

    interceptor: grpc.aio.ServerInterceptor
    operation: "SpansOfOperations"
    provider: TracerProvider

    def close(self) -> None:
        """Export the queued spans."""
        self.provider.shutdown()


def make_tracing(
    settings: TelemetrySettings, outbox: Outbox | None, gets_span: Callable[[grpc.HandlerCallDetails], bool]
) -> Tracing:
    """Return the instrumentation.

    Args:
        settings: of telemetry.
        outbox: receives the spans; None: they are written to the log.
        gets_span: returns whether a call gets a span.
    """
    # Without batches: the log queues the spans itself.
    processor = SimpleSpanProcessor(LoggedSpans()) if outbox is None else OutboxSpans(outbox)
    # A client that has decided about sampling is followed; the ratio decides about the rest.
    provider = provider_of(ParentBased(TraceIdRatioBased(settings.trace_ratio)), sender(), processor)
    make: Callable[..., grpc.aio.ServerInterceptor] = SpansOfWrittenStreams
    tracer = provider.get_tracer(SERVICE)
    return Tracing(make(tracer, filter_=gets_span), SpansOfOperations(tracer), provider)


def sender() -> Resource:
    """Return the resource: the description of this process as the sender of telemetry."""
    # A random instance id: several sidecars of one host must not share their series at the collector.
    return Resource.create({SERVICE_NAME: SERVICE, INSTANCE: secrets.token_hex(8)})


def provider_of(sampler: Sampler, resource: Resource, processor: SpanProcessor) -> TracerProvider:
    """Return a new provider: plugins that use OpenTelemetry's global provider then do not interfere."""
    # No hook at the exit of the interpreter: `close` ends the provider in the order that composition chose.
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


class OutboxSpans(SpanProcessor):
    """Queues ended spans for the collector."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def on_end(self, span: ReadableSpan) -> None:
        """Queue an ended span if it is sampled."""
        context = span.get_span_context()
        # The processor also receives spans that only propagate a context.
        if context is not None and context.trace_flags.sampled:
            self._outbox.put(Signal.SPANS, span)


class SpansOfWrittenStreams(OpenTelemetryAioServerInterceptor):
    """OpenTelemetry's interceptor for handlers that write to a stream, which also ties log lines to the span.

    The original iterates over the handler's result instead, so that every such call fails.
    """

    # Overrides a private method: the instrumentation has no public place between the start of a span and the handler.
    @contextmanager
    def _start_span(self, *given: Any, **named: Any) -> Iterator[Span]:
        start: Callable[..., AbstractContextManager[Span]] = super()._start_span
        # The original method starts the span; only the trace of the log lines is added.
        with start(*given, **named) as span:
            LOGGED.set(TraceContext(traceparent_of(span)))
            yield span

    def _intercept_aio_server_stream(
        self, behavior: Callable[[bytes, Any], Awaitable[None]], handler_call_details: grpc.HandlerCallDetails
    ) -> Callable[[bytes, Any], Awaitable[None]]:
        start_span: Callable[..., Any] = self._start_span
        # Passes calls on to the context, and sets the status of the span when the handler ends the call.
        context_with_span: Callable[..., Any] = _OpenTelemetryAioServicerContext

        async def traced(request: bytes, context: Any) -> None:
            # Without a status on exceptions: handlers end a call with a status of their own, which is no failure of the
            # server.
            with (
                self._set_remote_context(context),
                start_span(handler_call_details, context, set_status_on_exception=False) as span,
            ):
                await behavior(request, context_with_span(context, span))

        return traced


class SpansOfOperations:
    """Creates a span for each operation of a session lane, with the names and attributes of a call's span."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def __call__(self, method: str, metadata: Metadata) -> Iterator[Callable[[StatusCode, str], None]]:
        """Start the span of one operation; yield a function that sets its status if that is not OK."""
        # gRPC writes `/package.Service/Method`; the conventions want both parts without the slash.
        service, name = method.lstrip("/").split("/", 1)
        attributes: dict[str, str | int] = {
            RPC_SYSTEM: "grpc",
            RPC_SERVICE: service,
            RPC_METHOD: name,
            # OK, unless `ended` is called.
            RPC_GRPC_STATUS_CODE: 0,
        }
        # Binary metadata cannot carry a trace context.
        sent = {key: value for key, value in metadata if isinstance(value, str)}
        with self._tracer.start_as_current_span(
            method, context=extract(sent), kind=SpanKind.SERVER, attributes=attributes, set_status_on_exception=False
        ) as span:
            LOGGED.set(TraceContext(traceparent_of(span)))

            def ended(code: StatusCode, message: str) -> None:
                span.set_attribute(RPC_GRPC_STATUS_CODE, code.value[0])
                span.set_status(Status(SpanStatus.ERROR, f"{code.name}:{message}"))

            yield ended


class LoggedSpans(SpanExporter):
    """Writes each sampled span to the log, which only queues it."""

    def __init__(self) -> None:
        self._log = StructuredLog(ALWAYS)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans."""
        for span in spans:
            context = span.get_span_context()
            parent = span.parent
            self._log.info(
                event_names.SPAN,
                span.name,
                trace_id=f"{context.trace_id:032x}" if context else None,
                span_id=f"{context.span_id:016x}" if context else None,
                parent_id=f"{parent.span_id:016x}" if parent else None,
                seconds=((span.end_time or 0) - (span.start_time or 0)) / NANOSECONDS,
                status=span.status.status_code.name,
            )
        return SpanExportResult.SUCCESS
