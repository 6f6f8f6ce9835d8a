"""What a client may send over a lane, and when."""

from collections.abc import Callable
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from sidecar.core.errors import AdmissionRefused, FieldProblem, SessionInvalid

SESSION_FEATURE: Final = "session"
MARGIN: Final = timedelta(minutes=1)
"""By how much the deadline of a lane may be further away than its life can last."""
ROUNDING: Final = 1.02
"""gRPC rounds deadlines up on their way: those of half an hour to ten seconds."""
OPERATIONS_LIMIT: Final = "lane_operations"
RETRY_AFTER: Final = timedelta(milliseconds=100)


class LaneStage(Enum):
    """How far a lane is."""

    OPENING = auto()
    """The client's hello has not come."""
    OPEN = auto()
    DRAINING = auto()
    """The client was asked to open another lane; what it sends here is still carried out."""
    CLOSING = auto()
    """The client has closed its side: what is in flight ends, then the lane does."""


class Incoming(Struct):
    """The client's side of one lane.

    Attributes:
        most_operations: in flight at a time.
        newest: largest correlation id so far.
    """

    most_operations: int
    stage: LaneStage = LaneStage.OPENING
    newest: int = 0

    def hello(self, contract_version: int) -> None:
        """Take the client's hello. Raises `SessionInvalid`."""
        if self.stage is not LaneStage.OPENING:
            raise _invalid("hello", "was sent before; it belongs into the first message only")
        if contract_version < 1:
            raise _invalid("hello.contract_version", "must be at least 1")
        self.stage = LaneStage.OPEN

    def check_open(self) -> None:
        """Raise `SessionInvalid` unless the client has said hello."""
        if self.stage is LaneStage.OPENING:
            raise _invalid("hello", "is missing; the first message of a lane has one")

    def begin(self, correlation_id: int) -> None:
        """Take note of an operation. Raises `SessionInvalid`, which ends the lane: ids tell results apart."""
        if correlation_id <= self.newest:
            raise _invalid("operations.correlation_id", f"must be more than {self.newest}, the largest so far")
        self.newest = correlation_id

    def refuse_if_full(self, in_flight: int) -> None:
        """Raise `AdmissionRefused`, which ends the operation alone, if too many are in flight."""
        if in_flight > self.most_operations:
            raise AdmissionRefused(
                f"{self.most_operations} operations are in flight on this lane; come back when one has ended",
                metadata={"limit": OPERATIONS_LIMIT},
                retry_after=RETRY_AFTER,
            )

    def drain(self) -> bool:
        """Ask for another lane; returns whether this is the first time, and there is still somebody to ask."""
        asked, self.stage = self.stage is LaneStage.OPEN, _after(self.stage, LaneStage.DRAINING)
        return asked

    def close(self) -> None:
        """The client has closed its side."""
        self.stage = LaneStage.CLOSING


def _after(stage: LaneStage, wanted: LaneStage) -> LaneStage:
    return wanted if stage is LaneStage.OPEN else stage


def longest_deadline(max_age: timedelta, drain_time: timedelta) -> timedelta:
    """Return the longest deadline that a lane may have: as long as it can live, and a margin."""
    return max_age + drain_time + MARGIN


def check_deadline(left: timedelta | None, most: timedelta) -> None:
    """Raise `SessionInvalid` unless a lane has a deadline, of at most `most`.

    A client that does not read cannot be told anything, not even that its lane is over; the deadline ends the stream.
    """
    if left is None or left > most * ROUNDING:
        raise _invalid("deadline", f"set a deadline of at most {most.total_seconds():g} s on the call of Session")


def lifetime(max_age: timedelta, uniform: Callable[[float, float], float]) -> timedelta:
    """Return when a lane is asked to drain: up to a tenth before its greatest age, so that not all do so at once."""
    return max_age * (1 - uniform(0.0, 0.1))


def _invalid(field: str, description: str) -> SessionInvalid:
    return SessionInvalid(f"the lane cannot be used: {field} {description}", fields=[FieldProblem(field, description)])
