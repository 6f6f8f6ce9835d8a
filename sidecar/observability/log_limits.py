"""Limits the warnings and errors of one kind in the log: the first lines of a period are written, others are counted.

One mechanism serves the whole process, libraries included. When the period of a kind is over, one line says how many
lines were omitted. Info lines are never limited. Lines of the logger `ALWAYS` do not pass through this module.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from sidecar.observability import event_names

MOST_LINES: Final = 20
"""The most lines of one kind in one period."""
PERIOD: Final = 60.0
"""Length of a period in seconds. It begins with the first line of a kind."""
MOST_KINDS: Final = 500
"""The most kinds with their own limit at a time. Further kinds share one limit."""
OTHER: Final = "other"
"""The event of the one kind to which all further kinds belong."""


class Kind(Struct, frozen=True):
    """The kind of lines that share a limit.

    Attributes:
        told_by: distinguishes lines of one event: the field `kind` or `cause`, or else the text.
    """

    logger: str
    level: int
    event: str
    told_by: str


class _Period(Struct):
    """The lines of one kind since `until` minus `PERIOD`: written (`passed`) and omitted (`left_out`)."""

    until: float
    passed: int = 0
    left_out: int = 0


class LineLimit:
    """Decides which lines are written. Several threads may use it at the same time.

    Attributes:
        left_out: the number of lines that were not written since the start.

    Args:
        now: returns the seconds of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.left_out = 0
        self._now = now
        self._lock = threading.Lock()
        self._periods: dict[Kind, _Period] = {}
        # Omitted lines of periods that are over, until `summaries` reports them.
        self._unreported: Counter[Kind] = Counter()

    def passes(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; otherwise it is counted."""
        if record.levelno < logging.WARNING:
            return True
        kind, now = _kind_of(record), self._now()
        with self._lock:
            if kind not in self._periods and len(self._periods) >= MOST_KINDS:
                # Bounded, because the text of a library's message may differ in each line, and each would be a kind of
                # its own.
                kind = Kind("", record.levelno, OTHER, OTHER)
            period = self._periods.get(kind)
            if period is None or now >= period.until:
                # The number of omitted lines must be reported before the new period counts from 0.
                self._end(kind)
                period = self._periods[kind] = _Period(now + PERIOD)
            if period.passed < MOST_LINES:
                period.passed += 1
                return True
            period.left_out += 1
            self.left_out += 1
            return False

    def due_in(self) -> float | None:
        """Return the seconds until `summaries` may yield a line; None if it cannot before another line arrives."""
        with self._lock:
            ends = [period.until for period in self._periods.values()]
        return max(0.0, min(ends) - self._now()) if ends else None

    def summaries(self, *, at_the_end: bool = False) -> Iterator[logging.LogRecord]:
        """Yield a line for each kind with omitted lines whose period, or the process, has ended."""
        now = self._now()
        with self._lock:
            for kind in [kind for kind, each in self._periods.items() if at_the_end or now >= each.until]:
                self._end(kind)
            # Taken out under the lock and yielded without it: the consumer formats lines, and callers that log must not
            # wait.
            over, self._unreported = self._unreported, Counter()
        for kind, count in over.items():
            yield _summary(kind, count)

    def _end(self, kind: Kind) -> None:
        """End the period of a kind, if it has one. The caller holds the lock."""
        period = self._periods.pop(kind, None)
        if period is not None and period.left_out:
            self._unreported[kind] += period.left_out


def _kind_of(record: logging.LogRecord) -> Kind:
    """Return the kind of a line, which decides which lines share its limit."""
    fields: dict[str, Any] = getattr(record, "fields", {})
    # The message before its arguments are inserted: lines that differ only in an id are one kind.
    told_by = str(fields.get("kind") or fields.get("cause") or record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        told_by = f"{told_by} {record.exc_info[0].__name__}"
    return Kind(record.name, record.levelno, getattr(record, "event", ""), told_by)


def _summary(kind: Kind, count: int) -> logging.LogRecord:
    """Return the line that says how many lines of a kind were omitted."""
    message = "more lines like this one were left out of the log"
    record = logging.LogRecord(kind.logger, kind.level, "", 0, message, (), None)
    record.event = event_names.LOG_LEFT_OUT
    record.fields = {"of": kind.event or kind.logger, "kind": kind.told_by, "count": count, "seconds": PERIOD}
    return record
