"""The limits of session lanes, which operators set, and the dependencies of lanes on the process."""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from grpc import StatusCode
from msgspec import Struct, field

from sidecar.core.session.incoming import SESSION_FEATURE, longest_deadline
from sidecar.core.session.outgoing import OutgoingLimits
from sidecar.operations.ports import Clock, Ids, Randomness, Spawner
from sidecar.rpc.dispatch_servicer import CONTRACT_VERSION, QUESTIONS_FEATURE
from subagents.dispatch.v1 import dispatch_pb2 as pb

if TYPE_CHECKING:
    from sidecar.core.session.stalls import Stall

SILENT_INTERVALS: Final = 3
"""Heartbeat intervals without a message after which a client that announced heartbeats counts as gone. More than one,
because a busy client may miss one."""


class SessionRules(Struct, frozen=True):
    """The limits of lanes; `docs/settings.md` explains each in the section `session`."""

    max_age: timedelta = timedelta(minutes=30)
    drain_time: timedelta = timedelta(minutes=2)
    resume_grace: timedelta = timedelta(seconds=5)
    stall_timeout: timedelta = timedelta(seconds=10)
    heartbeat_interval: timedelta = timedelta(seconds=10)
    most_lanes: int = 1024
    most_operations: int = 256
    outgoing: OutgoingLimits = field(default_factory=OutgoingLimits)
    message_bytes: int = 4 * 1024 * 1024


def contract(rules: SessionRules) -> pb.Contract:
    """Return the contract that a sidecar with lanes offers."""
    offered = pb.Contract(version=CONTRACT_VERSION, features=[SESSION_FEATURE, QUESTIONS_FEATURE])
    # The client must set a deadline for the lane's stream; it cannot know the age and the drain time of this sidecar.
    offered.session_deadline.FromTimedelta(longest_deadline(rules.max_age, rules.drain_time))
    return offered


class LaneReports(Protocol):
    """Logs and counts events of lanes. Never raises, never waits."""

    def stalled(self, stall: "Stall") -> None:
        """A lane was closed because its client did not read it."""

    def out_of_credit(self, credit: str) -> None:
        """An operation ended because its client granted no credit."""


class LaneCounts(Struct):
    """Counts of lanes, for metrics that are read at intervals.

    Attributes:
        lanes: number of open lanes.
        operations: number of ended operations, by method and code.
    """

    lanes: int = 0
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)


SpanOf = Callable[[str, Any], AbstractContextManager[Callable[[StatusCode, str], None]]]
"""Starts the span of an operation from its method and metadata; yields a function that sets a status other than OK."""


class LaneDependencies(Struct, frozen=True):
    """The dependencies of lanes on the process.

    Attributes:
        spawner: owns the tasks of operations, which may outlive their lane.
        ids: creates the ids of lanes.
        chance: randomises the age of a lane, so that the clients do not reconnect all at once.
        reports: logs and counts stalled lanes and exhausted credit.
        counts: of lanes and operations, for metrics.
        span: starts the span of an operation; None: no tracing.
    """

    spawner: Spawner
    clock: Clock
    ids: Ids
    chance: Randomness
    reports: LaneReports
    counts: LaneCounts = field(default_factory=LaneCounts)
    span: SpanOf | None = None


OPERATIONS: Final[Mapping[str, str]] = {
    "bind_turn": "BindTurn",
    "dispatch": "Dispatch",
    "resume_dispatch": "ResumeDispatch",
    "cancel_call": "CancelCall",
    "close_child": "CloseChild",
    "end_turn": "EndTurn",
}
"""The RPC of each request that an operation can hold."""
