"""A gate that cannot be asked is on the log, in a count, and on the trace of the call that met it."""

from datetime import timedelta

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sidecar.core.errors import GateHeld
from sidecar.core.identifiers import Vertical
from sidecar.observability import event_names, names
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.rollout_recorder import MeasuringRolloutRecorder
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules, refuse_unless_passed
from sidecar.policy.lifecycle import GateUnavailable
from tests.support.requirement import requirement
from tests.unit.rollout.building import facts
from tests.unit.rollout.test_gatekeeping import QUESTION, Clock, Gate, raises


@requirement("PF1-T-20c", "PF1-T-20b")
async def test_an_outage_of_a_gate_is_an_event_of_the_trace_and_told_to_an_operator() -> None:
    """And no failed gate."""
    told: list[tuple[str, str]] = []
    metrics, spans = Metrics(), InMemorySpanExporter()
    recorder = MeasuringRolloutRecorder(metrics, lambda kind, detail: told.append((kind, detail)))
    away = Gate(raises(GateUnavailable("it is away")))
    keeper = GateEvaluator(GateRules(timedelta(seconds=5)), lambda vertical, gate: away, Clock(), recorder)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    with provider.get_tracer("test").start_as_current_span("SetRamp"), pytest.raises(GateHeld):
        refuse_unless_passed(await keeper.ask_all(QUESTION, ("pre_ramp",), Vertical("shop"), facts("shop")))

    (span,) = spans.get_finished_spans()
    assert [(event.name, dict(event.attributes or {})) for event in span.events] == [
        (event_names.ANOMALY, {"kind": "gate_unavailable"})
    ]
    assert told == [("gate_unavailable", "pre_ramp of shop: it is away")]
    assert [each.series for each in metrics if isinstance(each, Counter) and each.name == names.GATES_FAILED] == [{}]
    provider.shutdown()
