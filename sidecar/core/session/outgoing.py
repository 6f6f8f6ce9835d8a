"""The results that wait to be sent over a lane: credit of the lane and of each operation, and the next message.

A result is sent while both credits are above 0, and then costs its size. A result larger than the whole credit is
therefore sent, too; the credit is then negative until the client has granted the difference. A result without credit
waits and delays only its own operation. A message that ends an operation and carries no result costs nothing. So a
client that granted too little credit still learns that its operation was ended.
"""

from collections import deque
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct

MESSAGE_BYTES: Final = 1024 * 1024
"""Results are combined into messages of at most this size; a larger result is sent alone."""

# A tag of one byte, then a length with 7 bits in each byte, then the result.
ONE_BYTE, TWO_BYTES, THREE_BYTES = 2 + (1 << 7) - 1, 3 + (1 << 14) - 1, 4 + (1 << 21) - 1
"""The largest message whose length field has one, two or three bytes."""


@unique
class Credit(StrEnum):
    """Which credit is used up."""

    OPERATION = "operation"
    LANE = "lane"


def cost(framed: bytes) -> int:
    """Return the cost of a result: its own size, without the tag and length that embed it in a message.

    Args:
        framed: a serialised message with exactly one result.
    """
    size = len(framed)
    # Tag and one byte of length are always there. Computed and not parsed, because each result passes here.
    return size - 2 - (size > ONE_BYTE) - (size > TWO_BYTES) - (size > THREE_BYTES)


class OutgoingLimits(Struct, frozen=True):
    """Limits of waiting results, in bytes.

    Attributes:
        operation_queue: the most that one operation may have waiting for credit, its own or the lane's.
        lane_queue: the most that all operations together may have waiting for credit. Also the limit of what is ready
            and unsent: with more, no further work is accepted (`OutgoingQueue.crowded`).
        most_credit: the most credit of the lane or of one operation; more is ignored.
        message_bytes: see `MESSAGE_BYTES`.
    """

    operation_queue: int = 256 * 1024
    lane_queue: int = 8 * 1024 * 1024
    most_credit: int = 16 * 1024 * 1024
    message_bytes: int = MESSAGE_BYTES


class _Flow(Struct):
    """One operation: its credit, and its waiting results, each with whether it is the last one."""

    credit: int
    waiting: deque[tuple[bytes, bool]]
    waiting_bytes: int = 0


class OutgoingQueue:
    """The unsent results of one lane, as serialised messages.

    Args:
        credit: of the lane, in bytes.
    """

    def __init__(self, credit: int, limits: OutgoingLimits) -> None:
        self._limits = limits
        self._credit = min(credit, limits.most_credit)
        self._flows: dict[int, _Flow] = {}
        self._ready: deque[bytes] = deque()
        self._ready_bytes = 0
        # A dictionary as an ordered set: credit of the lane goes to the operation that has waited longest.
        self._blocked: dict[int, None] = {}
        self._waiting_bytes = 0

    @property
    def size(self) -> int:
        """The number of unsent bytes."""
        return self._waiting_bytes + self._ready_bytes

    @property
    def crowded(self) -> bool:
        """Whether so many bytes are ready and unsent that no further work should be accepted.

        Credit does not limit this: the ends of operations cost none, and a client can grant credit and never read.
        """
        return self._ready_bytes > self._limits.lane_queue

    @property
    def ready(self) -> bool:
        """Whether a message can be sent now."""
        return bool(self._ready)

    def open(self, correlation_id: int, credit: int) -> None:
        """Accept results of an operation."""
        self._flows[correlation_id] = _Flow(min(credit, self._limits.most_credit), deque())

    @property
    def blocked(self) -> list[int]:
        """The operations whose results wait for credit."""
        return list(self._blocked)

    def is_blocked(self, correlation_id: int) -> bool:
        """Return whether a result of an operation waits for credit."""
        return correlation_id in self._blocked

    def add(self, correlation_id: int, result: bytes, *, last: bool = False) -> Credit | None:
        """Queue a result of an open operation.

        Returns:
            None; or the missing credit, if too much already waits for it: then the result was not queued, and the
            caller ends the operation with `cut`.
        """
        flow = self._flows[correlation_id]
        # Results of one operation stay in order: behind a waiting result, the next one waits too.
        if not flow.waiting and flow.credit > 0 and self._credit > 0:
            self._make_ready(correlation_id, flow, result, last)
            return None
        size = len(result)
        # The size and not the cost: the limit is for memory, the credit for the client.
        within = flow.waiting_bytes + size <= self._limits.operation_queue
        if not within or self._waiting_bytes + size > self._limits.lane_queue:
            return Credit.OPERATION if flow.credit <= 0 else Credit.LANE
        flow.waiting.append((result, last))
        flow.waiting_bytes += size
        self._waiting_bytes += size
        self._blocked[correlation_id] = None
        return None

    def cut(self, correlation_id: int, end: bytes) -> None:
        """End an open operation with a status that costs nothing; its waiting results are dropped."""
        flow = self._flows.pop(correlation_id)
        self._blocked.pop(correlation_id, None)
        self._waiting_bytes -= flow.waiting_bytes
        # The end is not delayed by missing credit, or the client would never learn that it granted too little.
        self.tell(end)

    def tell(self, message: bytes) -> None:
        """Queue a message of the lane itself, which costs nothing."""
        self._ready.append(message)
        self._ready_bytes += len(message)

    def grant(self, correlation_id: int, more: int) -> None:
        """Add credit to an operation, or (0) to the lane; results that it covers can be sent."""
        if more <= 0:
            return
        if correlation_id == 0:
            self._credit = min(self._credit + more, self._limits.most_credit)
            # In the order in which they were blocked: no operation can take all new credit of the lane for ever.
            # `blocked` returns a copy, because `_unblock` removes entries.
            for blocked in self.blocked:
                self._unblock(blocked)
        # Credit for an operation that has just ended is normal: grant and result crossed on the way.
        elif correlation_id in self._flows:
            flow = self._flows[correlation_id]
            flow.credit = min(flow.credit + more, self._limits.most_credit)
            self._unblock(correlation_id)

    def take(self) -> bytes:
        """Return the next message.

        In protobuf, concatenated messages parse as one message with the repeated fields of all.
        """
        ready, most = self._ready, self._limits.message_bytes
        taken = [ready.popleft()]
        size = len(taken[0])
        # Many small results in one message: a message for each would cost more than the results themselves.
        while ready and size + len(ready[0]) <= most:
            size += len(ready[0])
            taken.append(ready.popleft())
        self._ready_bytes -= size
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def clear(self) -> int:
        """Drop everything; return the number of bytes."""
        # Before anything is cleared: the number is reported to the client's next lane.
        dropped = self.size
        self._flows.clear()
        self._ready.clear()
        self._blocked.clear()
        self._waiting_bytes = self._ready_bytes = 0
        return dropped

    def _make_ready(self, correlation_id: int, flow: _Flow, result: bytes, last: bool) -> None:
        # Credit may become negative: a result is sent whole as soon as any credit is left. Otherwise a result larger
        # than the client's window could never be sent.
        size = cost(result)
        flow.credit -= size
        self._credit -= size
        self._ready.append(result)
        self._ready_bytes += len(result)
        # An ended operation needs no credit; `grant` ignores ids that are not open.
        if last:
            del self._flows[correlation_id]

    def _unblock(self, correlation_id: int) -> None:
        flow = self._flows[correlation_id]
        while flow.waiting and flow.credit > 0 and self._credit > 0:
            result, last = flow.waiting.popleft()
            flow.waiting_bytes -= len(result)
            self._waiting_bytes -= len(result)
            self._make_ready(correlation_id, flow, result, last)
        # While results still wait, the operation keeps its position among the blocked ones.
        if not flow.waiting:
            self._blocked.pop(correlation_id, None)
