"""The `[session]` section: the session lane, one long gRPC stream for all operations of a consumer-agent."""

from datetime import timedelta
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

SECOND: Final = timedelta(seconds=1)
MINUTE: Final = timedelta(minutes=1)
KIB: Final = 1024
MIB: Final = 1024 * 1024


class SessionSettings(Section):
    """The session lane: all RPCs of the orchestrator over one long stream. See docs/session-lane.md."""

    enabled: bool = setting(True, description="Offer the session lane.")
    max_age: Duration = setting(
        30 * MINUTE,
        ge=MINUTE,
        le=600 * MINUTE,
        description="Maximum lifetime of a lane. A random part of up to a tenth is subtracted, so that lanes do "
        "not end together.",
    )
    drain_time: Duration = setting(
        2 * MINUTE,
        ge=SECOND,
        le=60 * MINUTE,
        description="Time for operations in flight to complete after the end of a lane's lifetime.",
    )
    resume_grace: Duration = setting(
        5 * SECOND,
        ge=timedelta(0),
        description="Time that dispatches of a broken lane continue before their client counts as disconnected "
        "(`on_disconnect`).",
    )
    stall_timeout: Duration = setting(
        10 * SECOND, ge=SECOND, description="A lane whose client reads nothing for this time is closed."
    )
    heartbeat_interval: Duration = setting(
        10 * SECOND,
        ge=SECOND,
        description="Heartbeat interval of each side. After three missed heartbeats a client counts as disconnected.",
    )
    max_lanes: int = setting(1024, ge=1, description="Maximum number of concurrent lanes.")
    max_operations: int = setting(256, ge=1, description="Maximum number of operations in flight on one lane.")
    max_operation_queue_bytes: int = setting(
        256 * KIB,
        ge=KIB,
        description="Maximum bytes that wait for one operation without credit. An operation that exceeds it is ended.",
    )
    max_lane_queue_bytes: int = setting(
        8 * MIB,
        ge=KIB,
        description="Maximum bytes that wait for all operations of a lane without credit. Beyond it one "
        "operation is ended.",
    )
    max_credit_bytes: int = setting(
        16 * MIB, ge=64 * KIB, description="Maximum credit of a lane or an operation, in bytes."
    )

    def _check(self) -> None:
        # Otherwise the limit of the lane would end an operation that is still within the limit of an operation.
        if self.max_lane_queue_bytes < self.max_operation_queue_bytes:
            raise ValueError("max_lane_queue_bytes must be at least max_operation_queue_bytes")
