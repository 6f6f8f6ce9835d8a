"""The `[session]` section."""

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

    enabled: bool = setting(
        False, description="Offer it. Off until the matrix of who may call what is tested over it, too."
    )
    max_age: Duration = setting(
        30 * MINUTE, ge=MINUTE, le=600 * MINUTE, description="Longest life of a lane; one ends up to a tenth earlier."
    )
    drain_time: Duration = setting(
        2 * MINUTE, ge=SECOND, le=60 * MINUTE, description="After that, how long what is in flight on it may take."
    )
    resume_grace: Duration = setting(
        5 * SECOND,
        ge=timedelta(0),
        description="How long dispatches of a broken lane run on before their client counts as gone (`on_disconnect`).",
    )
    stall_timeout: Duration = setting(
        10 * SECOND, ge=SECOND, description="A lane that takes no message for so long is given up."
    )
    heartbeat_interval: Duration = setting(
        10 * SECOND,
        ge=SECOND,
        description="How often each side says that it is there; after three without a word a client is taken for gone.",
    )
    most_lanes: int = setting(1024, ge=1, description="Most lanes at a time.")
    most_operations: int = setting(256, ge=1, description="Most operations in flight on one lane.")
    operation_queue: int = setting(
        256 * KIB, ge=KIB, description="Bytes that may wait for an operation without credit; more ends it."
    )
    lane_queue: int = setting(
        8 * MIB, ge=KIB, description="Bytes that may wait for all operations of a lane without credit; more ends one."
    )
    most_credit: int = setting(
        16 * MIB, ge=64 * KIB, description="Most credit, in bytes, that a lane or an operation can have."
    )

    def _check(self) -> None:
        if self.lane_queue < self.operation_queue:
            raise ValueError("lane_queue must be at least operation_queue")
