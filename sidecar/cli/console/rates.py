"""Computes the rates on the page "Now" from the counters of the sidecars, by comparing readings of different times.

The console has no database. It keeps the readings of the last quarter of an hour in memory, and the newest audit rows.
"""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from subagents.dispatch.v1 import outcome_pb2

KEPT: Final = 900.0
"""Seconds for which readings are kept. The charts show the same period."""
WINDOW: Final = 60.0
"""Seconds over which a rate is computed."""
CLOSEST: Final = 1.0
"""The fewest seconds between two kept readings of one sidecar."""
ROWS: Final = 500
"""The most audit rows in memory."""
P99: Final = 0.99
REFUSED: Final = frozenset({outcome_pb2.OUTCOME_DROPPED, outcome_pb2.OUTCOME_REFUSED, outcome_pb2.OUTCOME_NOT_STARTED})
"""Outcomes of calls that were not run."""
Key = tuple[str, str, str, int, str]
"""Slot, definition, arm, outcome and reason of a call."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of a sidecar's counters.

    Attributes:
        at: seconds of the monotonic clock of the console.
        instance: changes with each start of the sidecar.
        calls: number of calls since that start.
        durations: histogram of the durations of calls, by slot: the number of calls in each bucket.
        bounds: upper bounds of the buckets.
    """

    at: float
    instance: str
    calls: dict[Key, int]
    durations: dict[str, tuple[int, ...]]
    bounds: tuple[float, ...]


@dataclass(slots=True)
class Tally:
    """Calls of a slot, or of one definition in it, within the window.

    Attributes:
        served: calls that ran and did not fail, also degraded and suspended ones.
        refused: calls that were not run.
        reasons: number of calls by the reason why they did not fully succeed.
    """

    served: int = 0
    refused: int = 0
    failed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def offered(self) -> int:
        """The number of all calls that have an outcome."""
        return self.served + self.refused + self.failed

    def count(self, outcome: int, reason: str, calls: int) -> None:
        """Add a number of calls with the same outcome and reason."""
        if outcome == outcome_pb2.OUTCOME_FAILED:
            self.failed += calls
        elif outcome in REFUSED:
            self.refused += calls
        else:
            self.served += calls
        if reason:
            self.reasons[reason] = self.reasons.get(reason, 0) + calls


@dataclass(slots=True)
class SlotRates:
    """The calls of one slot within the window.

    Attributes:
        seconds: length of the window; 0: there is only one reading yet.
        whole: all calls.
        arms: calls by definition and arm (`active`, `target` or `control`).
        durations: histogram of their durations: the number of calls in each bucket.
        p99: the duration in seconds that 99 % of the calls stay below; None: no call ran.
        series: points of the chart, oldest first: seconds before now, calls per second, failed calls per second.
    """

    seconds: float = 0.0
    whole: Tally = field(default_factory=Tally)
    arms: dict[tuple[str, str], Tally] = field(default_factory=dict)
    durations: tuple[int, ...] = ()
    p99: float | None = None
    series: list[tuple[float, float, float]] = field(default_factory=list)

    def per_second(self, calls: int) -> float | None:
        """Return a rate; None while there is only one reading."""
        return calls / self.seconds if self.seconds else None


SILENT: Final = 15.0
"""Seconds after which a sidecar without a new reading no longer counts: its last rates would stay on the page."""


class Samples:
    """The readings of the last quarter of an hour, by target (address of a sidecar)."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: dict[str, deque[Sample]] = {}
        self._bounds: tuple[float, ...] = ()

    def add(self, target: str, traffic: Any) -> None:
        """Add a reading. If the sidecar was restarted, the readings of the earlier process are dropped."""
        now, kept = self._monotonic(), self._kept.setdefault(target, deque())
        # Counters begin at 0 again, so a comparison with older readings would give negative rates.
        # By the id of the process, not by a decrease of the counts: a busy new process may soon have higher counts.
        if kept and kept[-1].instance != traffic.instance_id:
            kept.clear()
        # Many open pages would otherwise fill the memory with nearly equal readings.
        if kept and now - kept[-1].at < CLOSEST:
            return
        calls = {(c.sub_agent_id, c.definition_id, c.arm, c.outcome, c.reason): c.count for c in traffic.calls}
        durations = {each.sub_agent_id: tuple(each.durations) for each in traffic.slots}
        self._bounds = tuple(traffic.duration_bounds)
        kept.append(Sample(now, traffic.instance_id, calls, durations, self._bounds))
        # Ends before the deque is empty: the last reading is from `now`.
        while now - kept[0].at > KEPT:
            kept.popleft()

    def rates(self) -> dict[str, SlotRates]:
        """Return the rates of each slot over all sidecars that answered in the last `SILENT` seconds."""
        slots: dict[str, SlotRates] = {}
        for kept in self._kept.values():
            newest = kept[-1]
            if self._monotonic() - newest.at > SILENT:
                continue
            # Each sidecar has its own window: they are read at slightly different times.
            # `next` always finds a reading: at the latest `newest` itself, with a difference of 0.
            first = next(each for each in kept if newest.at - each.at <= WINDOW)
            for key, count in newest.calls.items():
                slot = slots.setdefault(key[0], SlotRates())
                # The longest window: the sum over sidecars is divided by it, so a younger one lowers the rate a little.
                slot.seconds = max(slot.seconds, newest.at - first.at)
                # A key that the first reading lacks began at 0 in between.
                new_calls = count - first.calls.get(key, 0)
                if new_calls > 0:
                    slot.whole.count(key[3], key[4], new_calls)
                    slot.arms.setdefault((key[1], key[2]), Tally()).count(key[3], key[4], new_calls)
            # Sidecars of another version may have other buckets, which cannot be added to these.
            for name, counts in newest.durations.items() if newest.bounds == self._bounds else ():
                slot = slots.setdefault(name, SlotRates())
                slot.durations = _sum(slot.durations, _increase(counts, first.durations.get(name, ())))
        for name, slot in slots.items():
            # From the summed histogram: quantiles of single sidecars cannot be combined.
            slot.p99 = quantile(slot.durations, self._bounds)
            slot.series = self._series(name)
        return slots

    def _series(self, slot: str) -> list[tuple[float, float, float]]:
        """Return the points of a slot's chart, as `SlotRates.series`, in steps of five seconds.

        If several sidecars have a point in the same step, the highest rate counts.
        """
        now, points = self._monotonic(), dict[int, tuple[float, float]]()
        for kept in self._kept.values():
            for before, after in zip(kept, list(kept)[1:], strict=False):
                took, offered, failed = after.at - before.at, 0, 0
                for key, count in after.calls.items():
                    if key[0] == slot:
                        new_calls = count - before.calls.get(key, 0)
                        offered += new_calls
                        failed += new_calls if key[3] == outcome_pb2.OUTCOME_FAILED else 0
                # `took` is at least `CLOSEST`, so it can be a divisor below.
                # The number of five-second steps between this reading and now.
                place = int((now - after.at) / 5)
                highest = points.get(place, (0.0, 0.0))
                # Not the sum: a sidecar may have no reading in a step and two in the next, so a sum would jump.
                points[place] = (max(highest[0], offered / took), max(highest[1], failed / took))
        return [(place * 5.0, *points[place]) for place in sorted(points, reverse=True)]


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float = P99) -> float | None:
    """Return a quantile of a histogram, by linear interpolation in its bucket; None: the histogram is empty.

    Args:
        counts: values in each bucket; the last bucket has no upper bound.
        bounds: upper bounds of all buckets but the last, ascending.
        share: of the values that are below the quantile.
    """
    cumulative = list(accumulate(counts))
    if not cumulative or not cumulative[-1]:
        return None
    rank = share * cumulative[-1]
    place = bisect_left(cumulative, rank)
    # In the last bucket the quantile is only known to be at least the lower bound.
    if place >= len(bounds):
        return bounds[-1]
    low, below = (bounds[place - 1], cumulative[place - 1]) if place else (0.0, 0)
    return low + (bounds[place] - low) * (rank - below) / counts[place]


class AuditTail:
    """Keeps the newest rows of the audit, so that each visit reads only rows that no earlier visit has read."""

    def __init__(self) -> None:
        self._rows: deque[Any] = deque(maxlen=ROWS)

    @property
    def seen(self) -> int:
        """The sequence number of the newest row; 0: there is none."""
        return self._rows[-1].sequence if self._rows else 0

    def add(self, rows: Iterable[Any]) -> None:
        """Add new rows. Two visits at the same time may read the same rows; each row is added once."""
        for row in rows:
            # Rows arrive in ascending order, so a row that is not newer is in the deque already.
            if row.sequence > self.seen:
                self._rows.append(row)

    def newest(self, most: int) -> list[Any]:
        """Return rows, newest first."""
        # As a list, because a deque has no slices.
        return list(self._rows)[: -most - 1 : -1]

    def of(self, slot: str) -> list[Any]:
        """Return the rows of a slot, oldest first."""
        return [row for row in self._rows if row.slot == slot]


def _increase(after: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    """Return the difference of two histograms of the same buckets; an empty one counts as all zeros."""
    return tuple(one - other for one, other in zip(after, before or [0] * len(after), strict=True))


def _sum(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one or [0] * len(other), other or [0] * len(one), strict=True))
