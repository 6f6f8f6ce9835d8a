"""The port `RolloutRecorder`: what rollouts report becomes counts. The audit itself goes through its sinks."""

import sys
from collections.abc import Callable, Mapping
from typing import Final

from sidecar.core.rollout.events import TransitionEvent
from sidecar.observability import names
from sidecar.observability.metrics import Labels, Metrics

ROLLBACK_BOUNDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds: the bind that follows at once, the budget of 5 minutes, and twice that. Source: PF1-NFR-2."""


class MeasuringRolloutRecorder:
    """Counts in plain integers. Never raises, never waits.

    Args:
        metrics: where the counters are kept.
        anomaly: logs and counts what should not happen: of the recorder of everything else.
    """

    def __init__(self, metrics: Metrics, anomaly: Callable[[str, str], None]) -> None:
        self._anomaly = anomaly
        self._transitions = metrics.counter(
            names.LIFECYCLE_TRANSITIONS,
            "Lifecycle transitions that took effect.",
            "subagent_id",
            "source_state",
            "target_state",
            "trigger",
        )
        self._gates = metrics.counter(names.GATES_FAILED, "Gates that said no.", "subagent_id", "milestone")
        self._kills = metrics.counter(names.KILL_SWITCHES_FIRED, "Kills on record.", "subagent_id")
        self._rollbacks = metrics.histogram(
            names.ROLLBACK_SECONDS, "From the request to the bind that shows it.", ROLLBACK_BOUNDS, "subagent_id"
        )

    def transitioned(self, event: TransitionEvent) -> None:
        """Count a transition that took effect. Source: PF1-OBS-1."""
        self._transitions.add(event.subagent_id, event.source_state, event.target_state, event.trigger)

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Count a gate's no. Source: PF1-OBS-2."""
        self._gates.add(definition_id, gate)

    def known(self, definition_id: str) -> None:
        """Have the counter of its kills there at 0."""
        self._kills.add(definition_id, by=0)

    def kill_switch_fired(self, definition_id: str) -> None:
        """Count a kill. Source: PF1-OBS-3."""
        self._kills.add(definition_id)

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Note how long a rollback took until a bind showed it. Source: PF1-OBS-4."""
        self._rollbacks.observe(seconds, definition_id)

    def anomaly(self, kind: str, detail: str) -> None:
        """Log and count something that should not happen, and note its kind on the span of the call that met it."""
        self._anomaly(kind, detail)
        traces = sys.modules.get("opentelemetry.trace")  # without it there is no span, and it takes long to load
        if traces is not None:
            traces.get_current_span().add_event(names.ANOMALY, {"kind": kind})


def show_rollout(
    metrics: Metrics, read: Mapping[str, Callable[[], float]], drift: Callable[[], Mapping[str, int]]
) -> None:
    """Show what is the case now.

    Args:
        metrics: where it is shown.
        read: what reads each of `GAUGES`, by its name.
        drift: how many contradictions there are, by definition.
    """
    for name, help_text in GAUGES.items():
        metrics.gauge(name, help_text, read[name])
    metrics.gauges(names.DRIFT, "Contradictions of the three sources.", lambda: _labelled(drift()), "subagent_id")


GAUGES: Final = {
    names.CLEANUP_PENDING: "Sub-agents whose decommissioning has not ended.",
    names.STOPS_PENDING: "Kills and ramp-downs that are not on record yet.",
    names.AUDIT_WAITING: "Age of the oldest audit event that waits for a sink.",
    names.COHORTS: "Distinct cohorts in this window.",
}


def _labelled(counts: Mapping[str, int]) -> Mapping[Labels, float]:
    return {(definition_id,): float(count) for definition_id, count in counts.items()}
