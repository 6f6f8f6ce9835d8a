"""The results that wait to be sent over a lane: credit of the lane and of each operation, and the next message.

A result is sent while both credits are above 0, and then costs its size. A result larger than the whole credit is
therefore sent, too; the credit is then negative until the client has granted as much. A result without credit waits
and delays only its own operation. The end of an operation without a result costs nothing, so that a client that
granted too little credit is informed.
"""

from collections import deque
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct

MESSAGE_BYTES: Final = 1024 * 1024
"""Results are put together into messages of at most that many bytes; a larger one goes alone."""

ONE_BYTE, TWO_BYTES, THREE_BYTES = 2 + (1 << 7) - 1, 3 + (1 << 14) - 1, 4 + (1 << 21) - 1
"""Largest message of a result whose length takes so many bytes."""


@unique
class Credit(StrEnum):
    """Which credit is used up."""

    OPERATION = "operation"
    LANE = "lane"


def cost(framed: bytes) -> int:
    """Return what a result costs: its own size, without the tag and the length that make it a part of a message.

    Args:
        framed: a serialised message with one result and nothing else.
    """
    size = len(framed)
    return size - 2 - (size > ONE_BYTE) - (size > TWO_BYTES) - (size > THREE_BYTES)


class OutgoingLimits(Struct, frozen=True):
    """Bounds on what waits, in bytes.

    Attributes:
        operation_queue: of one operation without credit.
        lane_queue: of all operations without credit together.
        most_credit: that a client can have granted, to the lane or to one operation; more is cut.
        message_bytes: see `MESSAGE_BYTES`.
    """

    operation_queue: int = 256 * 1024
    lane_queue: int = 8 * 1024 * 1024
    most_credit: int = 16 * 1024 * 1024
    message_bytes: int = MESSAGE_BYTES


class _Flow(Struct):
    """One operation: its credit, and its waiting results, each with a mark for the last one."""

    credit: int
    waiting: deque[tuple[bytes, bool]]
    waiting_bytes: int = 0


class OutgoingQueue:
    """The results of one lane that have not left yet, as serialised messages.

    Args:
        credit: of the lane, in bytes.
    """

    def __init__(self, credit: int, limits: OutgoingLimits) -> None:
        self._limits = limits
        self._credit = min(credit, limits.most_credit)
        self._flows: dict[int, _Flow] = {}
        self._ready: deque[bytes] = deque()
        self._ready_bytes = 0
        self._blocked: dict[int, None] = {}
        self._waiting_bytes = 0

    @property
    def size(self) -> int:
        """How many bytes have not left yet."""
        return self._waiting_bytes + self._ready_bytes

    @property
    def crowded(self) -> bool:
        """Whether so much can leave already that nothing should be asked for until some of it has.

        Credit does not bound this: the ends of operations cost none, and a client can grant what it never reads.
        """
        return self._ready_bytes > self._limits.lane_queue

    @property
    def ready(self) -> bool:
        """Whether something can leave now."""
        return bool(self._ready)

    def open(self, correlation_id: int, credit: int) -> None:
        """Begin to take results of an operation."""
        self._flows[correlation_id] = _Flow(min(credit, self._limits.most_credit), deque())

    @property
    def blocked(self) -> list[int]:
        """The operations of which something waits for credit."""
        return list(self._blocked)

    def is_blocked(self, correlation_id: int) -> bool:
        """Return whether something of an operation waits for credit."""
        return correlation_id in self._blocked

    def add(self, correlation_id: int, result: bytes, *, last: bool = False) -> Credit | None:
        """Take a result of an open operation.

        Returns:
            None; or whose credit is missing, where more waits for it than may: then nothing was taken, and the caller
            ends the operation with `cut`.
        """
        flow = self._flows[correlation_id]
        if not flow.waiting and flow.credit > 0 and self._credit > 0:
            self._leave(correlation_id, flow, result, last)
            return None
        size = len(result)
        within = flow.waiting_bytes + size <= self._limits.operation_queue
        if not within or self._waiting_bytes + size > self._limits.lane_queue:
            return Credit.OPERATION if flow.credit <= 0 else Credit.LANE
        flow.waiting.append((result, last))
        flow.waiting_bytes += size
        self._waiting_bytes += size
        self._blocked[correlation_id] = None
        return None

    def cut(self, correlation_id: int, end: bytes) -> None:
        """End an open operation with a status that costs nothing; what waits of it is dropped."""
        flow = self._flows.pop(correlation_id)
        self._blocked.pop(correlation_id, None)
        self._waiting_bytes -= flow.waiting_bytes
        self.tell(end)

    def tell(self, message: bytes) -> None:
        """Take what is of the lane itself: it costs nothing."""
        self._ready.append(message)
        self._ready_bytes += len(message)

    def grant(self, correlation_id: int, more: int) -> None:
        """Take in more credit, of an operation or (0) of the lane; what it is enough for can leave."""
        if more <= 0:
            return
        if correlation_id == 0:
            self._credit = min(self._credit + more, self._limits.most_credit)
            for blocked in self.blocked:
                self._unblock(blocked)
        elif correlation_id in self._flows:
            flow = self._flows[correlation_id]
            flow.credit = min(flow.credit + more, self._limits.most_credit)
            self._unblock(correlation_id)

    def take(self) -> bytes:
        """Return what leaves in one message: serialised messages, one after the other, are the message of them all."""
        ready, most = self._ready, self._limits.message_bytes
        taken = [ready.popleft()]
        size = len(taken[0])
        while ready and size + len(ready[0]) <= most:
            size += len(ready[0])
            taken.append(ready.popleft())
        self._ready_bytes -= size
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def clear(self) -> int:
        """Drop everything; returns how many bytes."""
        dropped = self.size
        self._flows.clear()
        self._ready.clear()
        self._blocked.clear()
        self._waiting_bytes = self._ready_bytes = 0
        return dropped

    def _leave(self, correlation_id: int, flow: _Flow, result: bytes, last: bool) -> None:
        size = cost(result)
        flow.credit -= size
        self._credit -= size
        self._ready.append(result)
        self._ready_bytes += len(result)
        if last:
            del self._flows[correlation_id]

    def _unblock(self, correlation_id: int) -> None:
        flow = self._flows[correlation_id]
        while flow.waiting and flow.credit > 0 and self._credit > 0:
            result, last = flow.waiting.popleft()
            flow.waiting_bytes -= len(result)
            self._waiting_bytes -= len(result)
            self._leave(correlation_id, flow, result, last)
        if not flow.waiting:
            self._blocked.pop(correlation_id, None)
