"""Queues the calls of a turn by slot, and starts them in order."""

from collections.abc import Collection, Mapping, Sequence

from sidecar.core.dispatching.slot_queues import QueuedCall, SlotQueues
from sidecar.operations.first_result import FirstResult
from subagents_errors import CallFailure


class TurnSlotQueues:
    """`core.dispatching.slot_queues` with results that callers can wait for.

    Attributes:
        running: the calls that may run now, by key.
    """

    def __init__(self) -> None:
        self._queues = SlotQueues()
        self.running: Mapping[str, QueuedCall] = self._queues.running
        self._starts: dict[str, FirstResult[CallFailure | None]] = {}

    @property
    def occupied(self) -> int:
        """The number of waiting and running calls, which the fan-out cap limits."""
        return self._queues.occupied

    def enter(self, calls: Sequence[QueuedCall]) -> None:
        """Queue calls behind the present ones; calls with a free slot start immediately."""
        self._queues.enter(calls)
        self._start_ready()

    def turn_of(self, key: str, stop: FirstResult[CallFailure]) -> FirstResult[CallFailure | None]:
        """Return a result that settles when the call may start (None), or when it is stopped (the reason)."""
        start: FirstResult[CallFailure | None] = FirstResult()
        if key in self.running:
            start.settle(None)
        else:
            self._starts[key] = start
            # A stopped call keeps its place in the queue: `leave` removes it once its outcome is set.
            stop.on_settled(start.settle)
        return start

    def start_beside(self, call: QueuedCall, lenders: Collection[str]) -> bool:
        """Start a delegation now, or return that it cannot start; see `SlotQueues.start_beside`."""
        return self._queues.start_beside(call, lenders)

    def leave(self, key: str) -> None:
        """Remove a call that has ended or was dropped, and start the calls that waited for its slot."""
        self._queues.leave(key)
        self._starts.pop(key, None)
        if self._queues.waiting:
            self._start_ready()

    def _start_ready(self) -> None:
        for key in self._queues.start_ready():
            start = self._starts.pop(key, None)
            if start is not None:
                start.settle(None)
