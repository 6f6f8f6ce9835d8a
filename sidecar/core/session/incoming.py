"""The rules for messages of a client on a session lane, one long stream that carries several operations.

`rpc/session` checks each message by these rules before it starts an operation.
"""

from collections.abc import Callable
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from sidecar.core.errors import AdmissionRefused, FieldProblem, SessionInvalid

SESSION_FEATURE: Final = "session"
MARGIN: Final = timedelta(minutes=1)
"""The time by which the deadline of a lane may exceed its lifetime."""
ROUNDING: Final = 1.02
"""Factor for the rounding of deadlines. gRPC rounds them up, a deadline of half an hour to the next ten seconds."""
# The name of the limit in the metadata of the refusal.
OPERATIONS_LIMIT: Final = "lane_operations"
RETRY_AFTER: Final = timedelta(milliseconds=100)
MOST_ENTRIES: Final = 4096
"""Maximum number of operations, credits and abandons in one message.

No other task runs while a message is processed. A message of 4 MiB could contain a million of them, which would delay
all other clients for many seconds.
"""


class LaneStage(Enum):
    """The stage of a lane."""

    OPENING = auto()
    """The client's hello has not arrived."""
    OPEN = auto()
    DRAINING = auto()
    """The sidecar has requested that the client open another lane. Operations on this lane are still executed."""
    CLOSING = auto()
    """The client has closed its side: the running operations end, then the lane."""


class IncomingValidator(Struct):
    """Checks the messages of the client of one lane.

    Attributes:
        most_operations: maximum number of concurrent operations.
        stage: the stage of the lane.
        newest: the largest correlation id so far.
    """

    most_operations: int
    stage: LaneStage = LaneStage.OPENING
    newest: int = 0

    def hello(self, contract_version: int, credit_bytes: int = 0) -> None:
        """Accept the client's hello. Raises `SessionInvalid`."""
        if self.stage is not LaneStage.OPENING:
            raise _invalid("hello", "was sent before; it belongs into the first message only")
        # In protobuf, 0 is also the value of a field that was not sent.
        if contract_version < 1:
            raise _invalid("hello.contract_version", "must be at least 1")
        if credit_bytes < 0:
            raise _invalid("hello.credit_bytes", "must not be negative")
        self.stage = LaneStage.OPEN

    def check_open(self, entries: int = 0) -> None:
        """Raise `SessionInvalid` before the client's hello, or if its message has too many entries."""
        if self.stage is LaneStage.OPENING:
            raise _invalid("hello", "is missing; the first message of a lane has one")
        # Checked before any entry is processed: the check itself must not take long.
        if entries > MOST_ENTRIES:
            raise _invalid("operations", f"credits and abandons of one message must be at most {MOST_ENTRIES}")

    def begin(self, correlation_id: int, credit_bytes: int = 0) -> None:
        """Register an operation. Raises `SessionInvalid`, which ends the lane.

        Results are identified by the ids of operations, so a lane with a wrong id cannot continue.
        """
        if credit_bytes < 0:
            raise _invalid("operations.credit_bytes", "must not be negative")
        # Ids must grow, so that a used id is recognised without a memory of all ids of a lane.
        if correlation_id <= self.newest:
            raise _invalid("operations.correlation_id", f"must be more than {self.newest}, the largest so far")
        self.newest = correlation_id

    def full(self) -> AdmissionRefused:
        """Return the error of an operation beyond the limit. It ends only this operation, not the lane."""
        return AdmissionRefused(
            f"{self.most_operations} operations are in flight on this lane; come back when one has ended",
            metadata={"limit": OPERATIONS_LIMIT},
            retry_after=RETRY_AFTER,
        )

    def granted(self, more: int) -> None:
        """Raise `SessionInvalid` unless the client grants a positive amount."""
        if more <= 0:
            raise _invalid("credits.bytes", "must be more than 0")

    def drain(self) -> bool:
        """Request another lane; return whether this is the first request and the client can still receive it."""
        # Both from the stage before, in one assignment: the second call must not ask again.
        asked, self.stage = self.stage is LaneStage.OPEN, _after(self.stage, LaneStage.DRAINING)
        return asked

    def close(self) -> None:
        """Note that the client has closed its side."""
        # From every stage: a client may also close a lane that is drained.
        self.stage = LaneStage.CLOSING


def _after(stage: LaneStage, wanted: LaneStage) -> LaneStage:
    # While it is opening, the caller repeats the request after the hello. While it is closing, the client has left.
    return wanted if stage is LaneStage.OPEN else stage


def longest_deadline(max_age: timedelta, drain_time: timedelta) -> timedelta:
    """Return the longest permitted deadline of a lane: its longest lifetime and a margin."""
    return max_age + drain_time + MARGIN


def check_deadline(left: timedelta | None, most: timedelta) -> None:
    """Raise `SessionInvalid` unless a lane has a deadline, of at most `most`.

    A client that does not read cannot receive anything, not even that its lane is over; the deadline ends the stream.
    """
    # Without this limit a client that never reads would hold its stream, and the memory of its results, for ever.
    if left is None or left > most * ROUNDING:
        raise _invalid("deadline", f"set a deadline of at most {most.total_seconds():g} s on the call of Session")


def lifetime(max_age: timedelta, uniform: Callable[[float, float], float]) -> timedelta:
    """Return when a lane is drained: up to a tenth before its maximum age, so that lanes are drained one by one."""
    # At random: lanes that were opened together, for example after a restart, would otherwise be drained together.
    return max_age * (1 - uniform(0.0, 0.1))


def _invalid(field: str, description: str) -> SessionInvalid:
    return SessionInvalid(f"the lane cannot be used: {field} {description}", fields=[FieldProblem(field, description)])
