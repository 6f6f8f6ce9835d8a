"""The audit sinks that come with the sidecar pass the suite that every audit sink has to."""

import io
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from typing_extensions import override

from sidecar.observability.audit.plugin import LOG_SINK, OTLP_SINK
from sidecar.observability.audit.sinks import AUDIT_LOG
from sidecar.observability.logging import LineFormatter
from sidecar.observability.redaction import Redactor
from sidecar.policy.audit import AuditSink
from sidecar.policy.factory import make_audit_sink
from sidecar.policy.problems import PluginProblem
from sidecar_conformance.audit_sink import AuditSinkBench, AuditSinkSuite, SinkFault, an_event
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver


class LogBench(AuditSinkBench):
    """The lines of a log for machines."""

    def __init__(self) -> None:
        self._out = io.StringIO()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the lines written here."""
        handler = logging.StreamHandler(self._out)
        handler.setFormatter(LineFormatter("json", Redactor()))
        logging.getLogger(AUDIT_LOG).addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger(AUDIT_LOG).removeHandler(handler)

    @override
    def make(self) -> AuditSink:
        return make_audit_sink(LOG_SINK, {})

    @override
    async def kept(self) -> Sequence[Mapping[str, Any]]:
        lines = [json.loads(line) for line in self._out.getvalue().split("\n") if line]
        of_every_line = ("time", "level", "logger", "message")
        return [{name: value for name, value in line.items() if name not in of_every_line} for line in lines]

    @override
    async def misbehave(self, fault: SinkFault) -> None:
        assert fault is SinkFault.NONE


class TestLog(AuditSinkSuite):
    """`log`; nothing makes it fail, and a line that nobody reads quickly enough is counted as lost."""

    closed = frozenset({"away", "refuse", "hang"})

    @pytest.fixture
    def bench(self) -> LogBench:
        """Make one."""
        return LogBench()


class CollectorBench(AuditSinkBench):
    """A collector over OTLP/gRPC that comes and goes."""

    def __init__(self) -> None:
        self._collector = OtlpReceiver()
        self._served = AsyncExitStack()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve."""
        await self._serve()
        try:
            yield
        finally:
            await self._served.aclose()

    @override
    def make(self) -> AuditSink:
        return make_audit_sink(OTLP_SINK, {"endpoint": self._collector.endpoint})

    @override
    async def kept(self) -> Sequence[Mapping[str, Any]]:
        return [{**record.attributes, "event": record.name} for record in self._collector.logs]

    @override
    async def misbehave(self, fault: SinkFault) -> None:
        self._collector.refuses = grpc.StatusCode.INVALID_ARGUMENT if fault is SinkFault.REFUSE else None
        self._collector.hangs = fault is SinkFault.HANG
        if fault is SinkFault.AWAY:
            await self._served.aclose()
        elif fault is SinkFault.NONE:
            await self._served.aclose()
            await self._serve()

    async def _serve(self) -> None:
        port = int(self._collector.endpoint.rpartition(":")[2] or 0) if self._collector.endpoint else 0
        await self._served.enter_async_context(otlp_receiver(port, self._collector))


class TestOtlp(AuditSinkSuite):
    """`otlp`, with a collector over a socket."""

    @pytest.fixture
    def bench(self) -> CollectorBench:
        """Make one."""
        return CollectorBench()


async def test_without_an_endpoint_there_is_no_otlp_sink() -> None:
    """It says which settings there are."""
    with pytest.raises(PluginProblem, match=r"telemetry\.otlp_endpoint"):
        make_audit_sink(OTLP_SINK, {})


async def test_a_log_for_people_shows_who_and_why() -> None:
    """Text, one line."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LineFormatter("text", Redactor()))
    logging.getLogger(AUDIT_LOG).addHandler(handler)
    try:
        await make_audit_sink(LOG_SINK, {}).take([an_event(1)])
    finally:
        logging.getLogger(AUDIT_LOG).removeHandler(handler)
    (line,) = out.getvalue().splitlines()
    assert "subagent.rollout.event: shop: ramp set" in line
    assert '"first@example.com"' in line
