"""A collector: receives spans, log records and metrics over OTLP/gRPC and keeps them.

async with otlp_receiver() as collector:
...  # a sidecar with `telemetry.otlp_endpoint = collector.endpoint`
span = await collector.span("invoke_agent shop")
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces_pb
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

WAIT_SECONDS: Final = 120.0
SERVICE: Final = "opentelemetry.proto.collector.{0}.v1.{1}Service"
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Received:
    """A span or a log record. Ids in hex; `parent` empty: none."""

    name: str
    attributes: Mapping[str, Any]
    body: str = ""
    severity: str = ""
    trace_id: str = ""
    span_id: str = ""
    parent: str = ""
    failed: bool = False


@dataclass(slots=True)
class OtlpReceiver:
    """What has come in.

    Attributes:
        endpoint: for `telemetry.otlp_endpoint`.
        numbers: newest value of each counter and gauge, and count of each histogram, by name and labels.
        raw: every request, as the bytes on the wire, by signal.
        refuses: log records are answered with this status, and not kept.
        hangs: log records are never answered.
    """

    endpoint: str = ""
    spans: list[Received] = field(default_factory=list)
    logs: list[Received] = field(default_factory=list)
    numbers: dict[tuple[str, tuple[str, ...]], float] = field(default_factory=dict)
    senders: list[Mapping[str, Any]] = field(default_factory=list)
    raw: list[tuple[str, bytes]] = field(default_factory=list)
    refuses: grpc.StatusCode | None = None
    hangs: bool = False
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def span(self, name: str, is_it: Callable[[Received], bool] = lambda _: True) -> Received:
        """Return the first span of that name, waiting for it."""
        return await self._first(lambda: (one for one in self.spans if one.name == name and is_it(one)), name)

    async def log(self, name: str, is_it: Callable[[Received], bool] = lambda _: True) -> Received:
        """Return the first log record of that event, waiting for it."""
        return await self._first(lambda: (one for one in self.logs if one.name == name and is_it(one)), name)

    async def number(self, name: str, *labels: str, at_least: float = 0.0) -> float:
        """Return a metric's value, waiting until it is there and as large as that."""

        def found() -> Iterable[float]:
            value = self.numbers.get((name, labels))
            return () if value is None or value < at_least else (value,)

        return await self._first(found, f"{name} {labels}")

    async def _first(self, found: Callable[[], Iterable[ItemT]], what: str) -> ItemT:
        async with self._news:
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await self._news.wait_for(lambda: next(iter(found()), None) is not None)
            except TimeoutError:
                seen = [one.name for one in (*self.spans, *self.logs)], sorted(self.numbers)
                raise AssertionError(f"{what} did not come; there are {seen}") from None
            return next(iter(found()))

    # --- taking in

    async def take_spans(self, request: traces_pb.ExportTraceServiceRequest, _: Any) -> Message:
        """Serve `TraceService.Export`."""
        for group in request.resource_spans:
            self.senders.append(_values(group.resource.attributes))
            for span in (span for scope in group.scope_spans for span in scope.spans):
                self.spans.append(
                    Received(
                        name=span.name,
                        attributes=_values(span.attributes),
                        trace_id=span.trace_id.hex(),
                        span_id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    )
                )
        return await self._taken("spans", request, traces_pb.ExportTraceServiceResponse())

    async def take_logs(self, request: logs_pb.ExportLogsServiceRequest, context: Any) -> Message:
        """Serve `LogsService.Export`."""
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses is not None:
            await context.abort(self.refuses, "as a test wants it")
        for group in request.resource_logs:
            self.senders.append(_values(group.resource.attributes))
            for record in (record for scope in group.scope_logs for record in scope.log_records):
                made = Received(
                    name=record.event_name,
                    attributes=_values(record.attributes),
                    body=record.body.string_value,
                    severity=record.severity_text,
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex(),
                )
                self.logs.append(made)
        return await self._taken("logs", request, logs_pb.ExportLogsServiceResponse())

    async def take_metrics(self, request: metrics_pb.ExportMetricsServiceRequest, _: Any) -> Message:
        """Serve `MetricsService.Export`."""
        for metric in (m for group in request.resource_metrics for scope in group.scope_metrics for m in scope.metrics):
            data = getattr(metric, str(metric.WhichOneof("data")))
            for point in data.data_points:
                labels = tuple(str(value) for value in _values(point.attributes).values())
                value = point.count if metric.HasField("histogram") else point.as_double or point.as_int
                self.numbers[metric.name, labels] = float(value)
        return await self._taken("metrics", request, metrics_pb.ExportMetricsServiceResponse())

    async def _taken(self, signal: str, request: Message, answer: Message) -> Message:
        async with self._news:
            self.raw.append((signal, request.SerializeToString()))
            self._news.notify_all()
        return answer


@asynccontextmanager
async def otlp_receiver(port: int = 0, again: OtlpReceiver | None = None) -> AsyncIterator[OtlpReceiver]:
    """Serve on a port of the loopback; unless said, on a free one. `again`: one that was away comes back."""
    receiver = again or OtlpReceiver()
    server = grpc.aio.server()
    for signal, name, request, take in (
        ("trace", "Trace", traces_pb.ExportTraceServiceRequest, receiver.take_spans),
        ("logs", "Logs", logs_pb.ExportLogsServiceRequest, receiver.take_logs),
        ("metrics", "Metrics", metrics_pb.ExportMetricsServiceRequest, receiver.take_metrics),
    ):
        handler = grpc.unary_unary_rpc_method_handler(
            take, request_deserializer=request.FromString, response_serializer=_bytes
        )
        service = SERVICE.format(signal, name)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    receiver.endpoint = f"http://127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    await server.start()
    try:
        yield receiver
    finally:
        await server.stop(None)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _values(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _values(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)
