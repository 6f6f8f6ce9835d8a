"""Connects session lanes to settings, metrics and log.

A lane is one long gRPC stream that carries many operations. This module is loaded only if the settings enable lanes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sidecar.composition.parts import Components
from sidecar.core.session.outgoing import Credit, OutgoingLimits
from sidecar.observability import event_names, names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.rpc.methods import Method
from sidecar.rpc.session.rules import LaneCounts, LaneDependencies, SessionRules
from sidecar.rpc.session.servicer import SessionServicer
from sidecar.settings import Settings

if TYPE_CHECKING:
    from sidecar.core.session.stalls import Stall

NAMED: Final = 16
"""The most operations that one log line names. A lane can have thousands; a line must stay readable."""


class LaneReports:
    """Reports the state of lanes in metrics and log.

    Args:
        counts: the numbers that the lanes themselves keep: open lanes, and ended operations by method and code.
    """

    def __init__(self, metrics: Metrics, counts: LaneCounts) -> None:
        self._log = StructuredLog("sidecar.session")
        self._stalls = metrics.counter(names.LANE_STALLS, "Session lanes given up: their client did not read them.")
        self._stalls.add(by=0)
        self._credit = metrics.counter(names.LANE_CREDIT, "Operations ended for want of credit.", "credit")
        # A series that first appears with the value 1 has no increase in Prometheus, so each starts at 0.
        for credit in Credit:
            self._credit.add(credit, by=0)
        metrics.gauge(names.LANES, "Session lanes that are open.", lambda: counts.lanes)
        ended = "Operations of session lanes that have ended."
        # The lanes count their operations in plain integers, because they end thousands a second; a scrape copies the
        # numbers.
        metrics.counted_elsewhere(
            names.LANE_OPERATIONS,
            ended,
            lambda: {key: float(count) for key, count in counts.operations.items()},
            "method",
            "code",
        )

    def stalled(self, stall: "Stall") -> None:
        """Count and log a lane that was closed because its client did not read it."""
        self._stalls.add()
        self._log.warning(
            event_names.LANE_STALLED,
            "a session lane was given up: its client did not read it",
            lane_id=stall.lane_id,
            # At most `MOST_IDS` of `core/session/stalls.py`, even if the lane had more.
            operations=len(stall.correlation_ids),
            oldest=stall.correlation_ids[:NAMED],
            dropped_bytes=stall.dropped_bytes,
        )

    def out_of_credit(self, credit: str) -> None:
        """Count an operation that was ended because its client granted no credit for the bytes of its result."""
        self._credit.add(credit)


def opened_lanes(parts: Components, rules: SessionRules, methods: Sequence[Method]) -> SessionServicer:
    """Return the servicer of lanes, with the methods of the dispatch service as operations."""
    counts = LaneCounts()
    dependencies = LaneDependencies(
        spawner=parts.tasks,
        clock=parts.replaced.clock,
        ids=parts.replaced.ids,
        chance=parts.replaced.chance,
        reports=LaneReports(parts.metrics, counts),
        counts=counts,
        span=parts.telemetry.operation_span,
    )
    return SessionServicer(rules, dependencies, methods)


def session_rules(settings: Settings) -> SessionRules:
    """Return the rules of lanes from the settings."""
    configured = settings.session
    return SessionRules(
        max_age=configured.max_age,
        drain_time=configured.drain_time,
        resume_grace=configured.resume_grace,
        stall_timeout=configured.stall_timeout,
        heartbeat_interval=configured.heartbeat_interval,
        most_lanes=configured.max_lanes,
        most_operations=configured.max_operations,
        outgoing=OutgoingLimits(
            operation_queue=configured.max_operation_queue_bytes,
            lane_queue=configured.max_lane_queue_bytes,
            most_credit=configured.max_credit_bytes,
        ),
        message_bytes=settings.server.limits.message_bytes,
    )
