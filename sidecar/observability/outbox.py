"""Queues telemetry for a collector: bounded queues, and one thread that empties them.

The event loop only appends. Telemetry that a slow or dead collector does not accept is lost and counted; no turn is
affected.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum, unique
from typing import Any, Final

BATCH: Final = 512
"""The most items of one request to the collector. A full batch wakes the thread before its interval is over."""


@unique
class Signal(StrEnum):
    """The kind of an item in the outbox."""

    SPANS = "spans"
    LOGS = "logs"
    METRICS = "metrics"


Ship = Callable[[Sequence[Any]], bool]
"""Sends a batch; returns whether the collector accepted it. Runs in the thread; may wait and raise."""


class Outbox:
    """The queues of telemetry, one for each signal.

    Args:
        most: the most items in each queue.

    Attributes:
        news: wakes the thread before its interval is over.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[Signal, deque[Any]] = {signal: deque() for signal in Signal}
        self._refused = dict.fromkeys(Signal, 0)
        self._failed = dict.fromkeys(Signal, 0)
        self.news = threading.Event()

    def put(self, signal: Signal, item: Any) -> None:
        """Queue an item; drop and count it if the queue is full. Only for the event loop."""
        # The newest item is dropped: if the loop removed the oldest, `take` in the thread could find too few.
        waiting = self._waiting[signal]
        if len(waiting) >= self._most:
            self._refused[signal] += 1
            return
        waiting.append(item)
        # Equal and not greater: the thread is woken once, and not by each further item.
        if len(waiting) == BATCH:
            self.news.set()

    def take(self, signal: Signal) -> Sequence[Any]:
        """Return the next batch; empty if the queue is empty. Only for the thread."""
        waiting = self._waiting[signal]
        # `popleft` and `append` of a deque are atomic, so loop and thread need no lock.
        return [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]

    def failed(self, signal: Signal, count: int) -> None:
        """Count items that the collector did not accept. Only for the thread.

        Loop and thread have separate counters, so that neither needs a lock.
        """
        self._failed[signal] += count

    def dropped(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of lost items by signal."""
        return {(signal.value,): float(self._refused[signal] + self._failed[signal]) for signal in Signal}


class OutboxWorker:
    """The thread that empties the outbox.

    Args:
        outbox: the queues to empty.
        ship: the function that sends each signal.
        interval: seconds between two rounds.
        on_contact: called in the thread with False when the collector stops accepting items, and with True when it
            accepts them again.
    """

    def __init__(
        self, outbox: Outbox, ship: Mapping[Signal, Ship], interval: float, on_contact: Callable[[bool], None]
    ) -> None:
        self._outbox = outbox
        self._ship = ship
        self._interval = interval
        self._on_contact = on_contact
        self._in_contact = True
        self._closing = False
        # A daemon thread cannot prevent the end of the process, even if it waits for a collector.
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Send the queued items for at most this time. Blocks, so it must not be called in the event loop."""
        self._closing = True
        self._outbox.news.set()
        # The thread is not waited for any longer: it is a daemon and ends with the process.
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._outbox.news.wait(self._interval)
            # Before the queues are read: an item that is added from here on sets it again.
            self._outbox.news.clear()
            # Read before the round, so that the last round includes every item that was queued before the end.
            closing = self._closing
            for signal in self._ship:
                self._round(signal)
            if closing:
                return

    def _round(self, signal: Signal) -> None:
        """Send the queued items of a signal; after a failure, the others wait for the next round."""
        while batch := self._outbox.take(signal):
            try:
                accepted = self._ship[signal](batch)
            except Exception:  # noqa: BLE001  foreign code may raise anything; one bad item must not end the thread
                accepted = False
            if not accepted:
                # Not queued again: a collector that is away for long would fill the memory with old data.
                self._outbox.failed(signal, len(batch))
            # Reported on a change only, or each round would write a line.
            if accepted is not self._in_contact:
                self._in_contact = accepted
                self._on_contact(accepted)
            if not accepted:
                return
