"""Passes log records to a thread that writes them: all lines of ten milliseconds cost one wake-up and one write.

The first line after a pause wakes the thread. As long as several lines arrive in each period of ten milliseconds, the
thread polls and needs no wake-up; an error ends the period immediately. A process that is killed loses the lines of
the last period.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Thread
from typing import Final, TextIO

from sidecar.observability.log_limits import LineLimit
from sidecar.operations.trace_context import LOGGED

LINES_WAITING: Final = 10_000
"""The most queued lines. Further lines are dropped and counted, so that a blocked output cannot exhaust the memory."""
LINES_AT_ONCE: Final = 500
"""The most lines of one write."""
GATHER: Final = 0.01
"""Seconds for which the thread collects further lines after the first one. An error ends the time immediately."""
FEW: Final = 1
"""If a period had at most this many lines, the thread waits for `news` instead of polling."""


class LossyQueue(logging.Handler):
    """Queues records for the writing thread; counts those without room, and those above the limit of their kind.

    Attributes:
        lost: number of records that found no room or could not be written.
        limit: omits records of a kind that is too frequent.
        waiting: the queued records, oldest first.
        news: set while the thread polls, or will poll next.
        urgent: set by records that must not wait (errors, and lines that other processes wait for), and by the end.

    Args:
        always: name of the logger without limits.
        most: the most records in the queue.
    """

    def __init__(self, always: str, most: int = LINES_WAITING) -> None:
        super().__init__()
        self.lost = 0
        self.limit = LineLimit()
        self.waiting: deque[logging.LogRecord] = deque()
        self.news = Event()
        self.urgent = Event()
        self._always = always
        self._most = most

    def handle(self, record: logging.LogRecord) -> bool:
        """Queue a record, unless there are too many of its kind. Takes no lock, unlike other handlers."""
        # `logging` would lock around `emit`; a deque needs no lock.
        passes = record.name == self._always or self.limit.passes(record)
        if passes:
            self.emit(record)
        return passes

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record without waiting and without formatting it, which would block the loop."""
        # Drops the newest line and keeps the oldest: those show how the trouble began.
        if len(self.waiting) >= self._most:
            self.lost += 1
            return
        if not hasattr(record, "of_trace"):  # a line of a library
            # Read here: the writing thread has no context of the task that logs.
            record.of_trace = LOGGED.get()
        self.waiting.append(record)
        if getattr(record, "prompt", record.levelno >= logging.ERROR):
            self.urgent.set()
        if not self.news.is_set():  # if it is set, the thread will still poll and find this record
            self.news.set()


class LogThread:
    """Writes the queued records, and between them the numbers of omitted lines.

    Args:
        queue: the records to write.
        out: the output.
        line: formats a record, without the end of line.
    """

    def __init__(self, queue: LossyQueue, out: TextIO, line: Callable[[logging.LogRecord], str]) -> None:
        self._queue = queue
        self._out = out
        self._line = line
        self._stopped = False
        self._thread = Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Write all queued lines and the summaries of the limit, and end."""
        # Before the events are set: the thread must see the flag when it wakes.
        self._stopped = True
        self._queue.urgent.set()
        self._queue.news.set()
        self._thread.join()
        # After `join`, only this thread reads the queue; lines that others still add are written, too.
        while self._queue.waiting:
            self._write(self._take())
        self._write(self._queue.limit.summaries(at_the_end=True))

    def _run(self) -> None:
        queue, busy = self._queue, False
        while not self._stopped:
            # The wait ends without news when the summary of a limit is due.
            if (busy or queue.news.wait(queue.limit.due_in())) and queue.urgent.wait(GATHER):
                queue.urgent.clear()
            # After the pause: how many lines arrived in it tells whether polling is worth it.
            busy = len(queue.waiting) > FEW
            if not busy:
                queue.news.clear()  # cleared before the queue is read: a later record sets it again
            while queue.waiting:
                self._write(self._take())
            self._write(queue.limit.summaries())

    def _take(self) -> Sequence[logging.LogRecord]:
        """Remove and return the oldest records, at most `LINES_AT_ONCE`."""
        waiting = self._queue.waiting
        return [waiting.popleft() for _ in range(min(len(waiting), LINES_AT_ONCE))]

    def _write(self, records: Iterable[logging.LogRecord]) -> None:
        """Write all lines with one call. A record that cannot be formatted is skipped; a closed output is ignored."""
        lines = []
        for record in records:
            try:
                lines.append(f"{self._line(record)}\n")
            except Exception:  # noqa: BLE001  callers may pass any objects, whose formatting may raise anything
                self._queue.lost += 1
        if lines:
            self._queue.lost += self._write_lines(lines)

    def _write_lines(self, lines: Sequence[str]) -> int:
        """Write lines; return how many were refused. One character that cannot be encoded makes all lines fail."""
        try:
            self._out.write("".join(lines))
            self._out.flush()
        except OSError:
            return len(lines)
        except ValueError:
            # One by one, so that a single bad line does not cost the others.
            return 1 if len(lines) == 1 else sum(self._write_lines([line]) for line in lines)
        return 0
