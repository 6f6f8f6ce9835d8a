"""Implements the interface `RolloutRecorder`: counts and logs what operations report about rollouts.

Audit events are not written here; audit sinks receive them.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from sidecar.core.definitions.files.names import SUBAGENT_FLAG_PREFIX
from sidecar.core.rollout.definition_changes import MajorChange, PendingPromotion
from sidecar.core.rollout.events import TransitionEvent
from sidecar.observability import event_names, names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Labels, Metrics
from sidecar.operations.process.rollout_assembly import RolloutOperations

ROLLBACK_BOUNDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds from a rollback to the first bind that uses it: from an immediate bind to twice the allowed 5 minutes.

Source: PF1-NFR-2.
"""

GATES: Final = ("pre_merge", "pre_ramp", "pre_full")
"""The gates of the platform (external checks before a step). Their series begin at 0.

The series of a gate that a lifecycle policy adds begins with its first refusal.
"""


class MeasuringRolloutRecorder:
    """Counts in plain integers. Never raises, never waits.

    Args:
        metrics: of the process.
        anomaly: the method of the general recorder, which logs and counts unexpected events.
    """

    def __init__(self, metrics: Metrics, anomaly: Callable[[str, str], None]) -> None:
        self._anomaly = anomaly
        self._log = StructuredLog("sidecar.rollout")
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
        # The only histogram here: the requirements limit the time of a rollback.
        self._rollbacks = metrics.histogram(
            names.ROLLBACK_SECONDS,
            "From the request to the bind that shows it.",
            ROLLBACK_BOUNDS,
            "subagent_id",
        )

    def transitioned(self, event: TransitionEvent) -> None:
        """Count a transition that took effect. Source: PF1-OBS-1."""
        self._transitions.add(event.subagent_id, event.source_state, event.target_state, event.trigger)

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Count a refusal of a gate. Source: PF1-OBS-2."""
        self._gates.add(definition_id, gate)

    def definitions_seen(self, version: str, waiting: Sequence[PendingPromotion], major: Sequence[MajorChange]) -> None:
        """Log that binds use a version of the definitions.

        Args:
            version: of the definitions.
            waiting: definitions that serve no user yet.
            major: definitions of which an earlier content still serves.
        """
        # First what still serves: the old content of a changed definition, which an operator may believe replaced.
        for change in major:
            fields = {"definition_id": change.definition_id, "slot": change.slot}
            digests = {"serving": change.serving, "loaded": change.loaded}
            self._log.warning(event_names.DEFINITION_CHANGED_MAJOR, _major_change_text(change), **fields, **digests)
        # A warning only if an operator has something to do.
        if not waiting:
            self._log.info(
                event_names.DEFINITIONS_ON_RECORD, "binds follow the definitions", version=version, waiting=[]
            )
            return
        text = (
            "binds use the definitions; these sub-agents serve no user until an operator promotes and ramps them "
            "(`sidecar subagent promote`, as an operator with a key in operators.keys)"
        )
        ids = [each.definition_id for each in waiting]
        self._log.warning(event_names.DEFINITIONS_ON_RECORD, text, version=version, waiting=ids)
        for pending in waiting:
            # A line of its own: no step can promote such a definition before its entry is corrected.
            if pending.needs_flag:
                about = {"definition_id": pending.definition_id, "slot": pending.slot}
                self._log.warning(event_names.DEFINITION_UNFLAGGED, _unflagged_text(pending), **about)

    def known(self, definition_id: str) -> None:
        """Create the counters for alerts at 0: kills, failed gates, rollbacks."""
        # Alerts compare a counter with its earlier value, so the first kill must not be the first value.
        self._kills.add(definition_id, by=0)
        for gate in GATES:
            self._gates.add(definition_id, gate, by=0)
        self._rollbacks.know(definition_id)

    def kill_switch_fired(self, definition_id: str) -> None:
        """Count a kill. Source: PF1-OBS-3."""
        self._kills.add(definition_id)

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Measure the time from a rollback to the first bind that uses it. Source: PF1-OBS-4."""
        self._rollbacks.observe(seconds, definition_id)

    def anomaly(self, kind: str, detail: str) -> None:
        """Log and count an unexpected event, and add its kind to the span of the present call."""
        self._anomaly(kind, detail)
        # Not imported: the module takes long to load, and if it is not loaded, there is no span.
        traces = sys.modules.get("opentelemetry.trace")
        if traces is not None:
            # The current span ignores the event if there is no real one. Only the kind is added: a detail may contain
            # names and texts, which are for the log.
            traces.get_current_span().add_event(event_names.ANOMALY, {"kind": kind})


def _major_change_text(change: MajorChange) -> str:
    """Return a text that says which card still serves after a major change, and how the new card can be served."""
    # Eight digits of the digest identify a card; the operator types them.
    digits, name = change.loaded.rpartition(":")[2][:8], change.definition_id
    return (
        f"{name} (slot {change.slot}) changed in a major way (model, tools or prompt blocks): the recorded card "
        f"(digest {change.serving}) still serves; the new one ({change.loaded}) is in {change.state} and serves no "
        f"user before `sidecar subagent promote {name} --digest {digits} --reason …`, then a ramp with --digest"
    )


def _unflagged_text(pending: PendingPromotion) -> str:
    """Return advice: how a new definition whose entry names no flag can be served."""
    name, reason = pending.definition_id, "--reason …"
    return (
        f"{name} (slot {pending.slot}) is new and its entry names no flag: it serves no user, and no step can promote "
        f"it. Add `enabled_via_flag: {SUBAGENT_FLAG_PREFIX}{name}` to the entry, then run "
        f"`sidecar subagent promote {name} {reason}` and `sidecar subagent ramp {name} 5 {reason}`. "
        "Where such entries may serve every user without a gate: rollout.auto_promote_unflagged = true"
    )


class ShownGauge(Struct, frozen=True):
    """A gauge whose values are read at each scrape. `labels` names the parts of each key."""

    name: str
    help: str
    read: Callable[[], Mapping[Labels, float]]
    labels: tuple[str, ...] = ()


def show_rollout(metrics: Metrics, gauges: Iterable[ShownGauge]) -> None:
    """Add the gauges to the metrics."""
    for gauge in gauges:
        metrics.gauges(gauge.name, gauge.help, gauge.read, *gauge.labels)


def standing_gauges(operations: RolloutOperations) -> Sequence[ShownGauge]:
    """Return the gauges of the present rollouts."""
    rollout = operations.gauges
    by_id = ("subagent_id",)
    # One series for each definition, with the value 1: its labels can be joined to the other series by `subagent_id`.
    of_definition = ("subagent_id", "slot", "vertical", "state", "active")
    return (
        number(names.CLEANUP_PENDING, "Sub-agents whose decommissioning has not ended.", rollout.cleanups_pending),
        number(names.CLEANUP_OVERDUE, "Of those, beyond their window.", rollout.cleanups_overdue),
        ShownGauge(names.DRIFT, "Contradictions of the three sources.", rollout.drift, by_id),
        ShownGauge(names.RAMP, "Own ramps, 0 to 1.", rollout.ramps, by_id),
        ShownGauge(names.PINNED_TURNS, "Open turns that hold a definition.", rollout.pinned, by_id),
        ShownGauge(names.ROLLOUT_DEFINITION, "1: slot, vertical and state.", rollout.definitions, of_definition),
        ShownGauge(names.FLAGS_AGE, "Since the last contact.", rollout.flag_ages, ("backend",)),
    )


def number(name: str, help_text: str, read: Callable[[], float]) -> ShownGauge:
    """Return a gauge of one number."""
    return ShownGauge(name, help_text, lambda: {(): float(read())})
