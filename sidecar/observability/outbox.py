"""Telemetry for a collector: bounded queues, and one thread that empties them.

The event loop only appends. Telemetry that a slow or dead collector does not accept is lost and counted; no turn is
affected.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum, unique
from typing import Any, Final

BATCH: Final = 512


@unique
class Signal(StrEnum):
    """What kind of thing is sent."""

    SPANS = "spans"
    LOGS = "logs"
    METRICS = "metrics"


Ship = Callable[[Sequence[Any]], bool]
"""Sends a batch; says whether the collector took it. Runs in the thread; may wait, may raise."""


class Outbox:
    """The queues.

    Args:
        most: items that may wait, of each signal.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[Signal, deque[Any]] = {signal: deque() for signal in Signal}
        self._refused = dict.fromkeys(Signal, 0)
        self._failed = dict.fromkeys(Signal, 0)
        self.news = threading.Event()

    def put(self, signal: Signal, item: Any) -> None:
        """Queue something to be sent; without room it is dropped and counted. From the event loop only."""
        waiting = self._waiting[signal]
        if len(waiting) >= self._most:
            self._refused[signal] += 1
            return
        waiting.append(item)
        if len(waiting) == BATCH:
            self.news.set()

    def take(self, signal: Signal) -> Sequence[Any]:
        """Return the next batch; empty if nothing waits. From the thread only."""
        waiting = self._waiting[signal]
        return [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]

    def failed(self, signal: Signal, count: int) -> None:
        """Count what the collector did not accept. From the thread only: two counters, so that none needs a lock."""
        self._failed[signal] += count

    def dropped(self) -> Mapping[tuple[str, ...], float]:
        """Return how much was lost, by signal."""
        return {(signal.value,): float(self._refused[signal] + self._failed[signal]) for signal in Signal}


class OutboxWorker:
    """The thread.

    Args:
        ship: what sends each signal.
        interval: seconds between two rounds.
        on_contact: told when the collector stops taking things, and when it takes them again.
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
        # A daemon: whatever it waits for, it does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Send what waits, for so long at most. Waits: not for the event loop."""
        self._closing = True
        self._outbox.news.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._outbox.news.wait(self._interval)
            self._outbox.news.clear()
            closing = self._closing  # before the round: whatever was put before the end goes with it
            for signal in self._ship:
                self._round(signal)
            if closing:
                return

    def _round(self, signal: Signal) -> None:
        """Send what waits; after a failure the rest waits for the next round."""
        while batch := self._outbox.take(signal):
            try:
                taken = self._ship[signal](batch)
            except Exception:  # noqa: BLE001  the border to foreign code: one bad item must not end the thread
                taken = False
            if not taken:
                self._outbox.failed(signal, len(batch))
            if taken is not self._in_contact:
                self._in_contact = taken
                self._on_contact(taken)
            if not taken:
                return
