"""Sends telemetry to an OpenTelemetry collector, if one is configured.

The exporters are loaded after the sidecar listens, because their libraries take longer to load than the other modules.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc
from msgspec import Struct, field

from sidecar.composition.telemetry.log_traces import LogTraces, is_not_lane, operation_trace
from sidecar.observability import event_names, names
from sidecar.observability.logging import ALWAYS, StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.observability.outbox import Outbox, OutboxWorker, Signal
from sidecar.observability.redaction import Redactor
from sidecar.operations.turn.state.tracing import LateTracing
from sidecar.settings import SettingsProblem, TelemetrySettings

EXPORTERS: Final = "opentelemetry-exporter-otlp-proto-grpc"
LAST_SECONDS: Final = 2.0
"""Seconds to wait at the end for the collector to accept the remaining data. The rest is lost."""
Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


class Telemetry(Struct):
    """Sends spans, metrics and events to the collector. The log and `/metrics` work without it.

    Attributes:
        tracing: creates the spans of operations; creates none before `begin`.
        outbox: the queue of data to be sent; None without an endpoint.
        operation_span: creates the spans of lane operations, or sets their traces; None before `interceptors`, and if
            telemetry is off.
    """

    settings: TelemetrySettings
    metrics: Metrics
    redactor: Redactor
    tracing: LateTracing = field(default_factory=LateTracing)
    outbox: Outbox | None = None
    operation_span: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Check the settings. Raises `SettingsProblem`."""
        if self.settings.otlp_endpoint is None:
            return
        check_installed("telemetry.otlp_endpoint")
        # Already here: spans and events of the start are queued until the exporters are loaded.
        self.outbox = Outbox(self.settings.otlp_queue)
        lost = "Telemetry that never reached the collector."
        self.metrics.counted_elsewhere(names.TELEMETRY_DROPPED, lost, self.outbox.dropped, "signal")

    def interceptors(self, opened: AsyncExitStack) -> Sequence[grpc.aio.ServerInterceptor]:
        """Return the interceptors of the listeners: for gRPC spans, or only for the trace ids in log lines.

        There are none if telemetry is off. They must exist before the listeners, because gRPC takes them only then.
        """
        if not self.settings.grpc_spans:
            if self.outbox is None:
                return ()
            # Without gRPC spans, log lines still get the trace that the client sent.
            self.operation_span = operation_trace
            return (LogTraces(),)
        from sidecar.observability.tracing import make_tracing  # noqa: PLC0415  costs nothing where it is off

        tracing = make_tracing(self.settings, self.outbox, is_not_lane)
        opened.callback(tracing.close)
        self.operation_span = tracing.operation
        return (tracing.interceptor,)

    async def begin(self, opened: AsyncExitStack) -> Sequence[Loop]:
        """Load the exporters and start sending. Returns the loop for the supervisor."""
        if self.outbox is None or self.settings.otlp_endpoint is None:
            return ()
        from sidecar.observability.otlp.readings import MetricsPump  # noqa: PLC0415  only with a collector

        # In a thread, because calls are already served and must not wait for the imports.
        worker = await asyncio.to_thread(self._load, self.settings.otlp_endpoint, self.outbox)
        events = EventsToOutbox(self.outbox)
        always = logging.getLogger(ALWAYS)
        pump = MetricsPump(self.metrics, self.outbox, self.settings.otlp_metrics_interval.total_seconds())
        # Before the thread starts, so that nothing is lost in between; the outbox holds what comes earlier.
        always.addHandler(events)
        worker.start()

        async def end() -> None:
            # First stop adding, then read the metrics for the last time, then send: otherwise the last data would not
            # be sent.
            always.removeHandler(events)
            pump.read()
            await asyncio.to_thread(worker.close, LAST_SECONDS)

        opened.push_async_callback(end)
        return (("telemetry", pump.run),)

    def _load(self, endpoint: str, outbox: Outbox) -> OutboxWorker:
        # Imported here because these modules take longer to load than the rest of the start.
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON  # noqa: PLC0415  loads slowly, see above

        from sidecar.observability.otlp.exporters import SENDER, Collector  # noqa: PLC0415  the same reason
        from sidecar.observability.spans import SampledSpans  # noqa: PLC0415  the same reason
        from sidecar.observability.tracing import OutboxSpans, provider_of, sender  # noqa: PLC0415  the same reason

        resource = sender()
        tracer = provider_of(ALWAYS_ON, resource, OutboxSpans(outbox)).get_tracer(SENDER)
        collector = Collector(endpoint, resource, self.redactor)
        # Assigned last, when everything behind it works: from now on, the loop's thread creates spans.
        self.tracing.behind = SampledSpans(tracer, self.settings.trace_ratio, random.random, self.redactor.clean)
        return OutboxWorker(outbox, collector.ship, self.settings.otlp_interval.total_seconds(), _contact)


class EventsToOutbox(logging.Handler):
    """Queues routing decisions, anomalies and failures for the collector, whatever the log level is."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one event. The sending thread converts it later, so that the caller is not delayed."""
        self._outbox.put(Signal.LOGS, record)


def check_installed(setting: str) -> None:
    """Raise `SettingsProblem`, which names the setting, if the OTLP exporter is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  only with a collector

    try:
        # Only looked up: importing it here would cost every start what `begin` defers.
        distribution(EXPORTERS)
    except PackageNotFoundError:
        raise SettingsProblem(
            [
                f"{setting}: nothing is installed that sends OTLP; install the extra "
                f"dispatch-sidecar[otlp] (which brings {EXPORTERS}), or leave it out"
            ]
        ) from None


def _contact(taken: bool) -> None:
    """Log a change: the collector accepts telemetry again (`taken`), or no longer."""
    log = StructuredLog("sidecar.collector")
    if taken:
        log.info(event_names.TELEMETRY_CONTACT, "the collector takes telemetry again", taken=True)
    else:
        log.warning(
            event_names.TELEMETRY_CONTACT, "the collector takes no telemetry; it is dropped and counted", taken=False
        )
