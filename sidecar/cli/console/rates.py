"""Rates out of counters: what was read before is compared with what is read now."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from subagents.dispatch.v1 import outcome_pb2

KEPT: Final = 900.0
"""Seconds that samples are kept: what the charts show."""
WINDOW: Final = 60.0
"""Seconds that a rate is taken over."""
CLOSEST: Final = 1.0
"""Seconds between two samples, however many pages are open."""
ROWS: Final = 500
P99: Final = 0.99
REFUSED: Final = frozenset({outcome_pb2.OUTCOME_DROPPED, outcome_pb2.OUTCOME_REFUSED, outcome_pb2.OUTCOME_NOT_STARTED})
"""Outcomes of calls that were not run."""
Key = tuple[str, str, str, int, str]
"""Slot, definition, arm, outcome and reason of a call."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of a sidecar's counters. `at`: of the monotonic clock."""

    at: float
    instance: str
    calls: dict[Key, int]
    durations: dict[str, tuple[int, ...]]


@dataclass(slots=True)
class Tally:
    """Calls of a slot, or of one definition in it, within the window; `reasons`: those that were not served in full."""

    served: int = 0
    refused: int = 0
    failed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def offered(self) -> int:
        """All calls that came to an outcome."""
        return self.served + self.refused + self.failed

    def count(self, outcome: int, reason: str, calls: int) -> None:
        """Take calls in."""
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
    """What a slot did within the window.

    Attributes:
        seconds: length of the window; 0: there is only one reading yet.
        arms: by definition and arm.
        p99: seconds; None: no call ran.
        series: calls offered and failed per second, by seconds before now, oldest first.
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
"""Seconds after its newest reading for which a sidecar counts: its rates would stay as they were for ever."""


class Samples:
    """The readings of the last quarter of an hour, by target."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: dict[str, deque[Sample]] = {}
        self._bounds: tuple[float, ...] = ()

    def add(self, target: str, traffic: Any) -> None:
        """Take a reading in; those of an earlier process of the same target are forgotten."""
        now, kept = self._monotonic(), self._kept.setdefault(target, deque())
        if kept and kept[-1].instance != traffic.instance_id:
            kept.clear()
        if kept and now - kept[-1].at < CLOSEST:
            return
        calls = {(c.sub_agent_id, c.definition_id, c.arm, c.outcome, c.reason): c.count for c in traffic.calls}
        durations = {each.sub_agent_id: tuple(each.durations) for each in traffic.slots}
        self._bounds = tuple(traffic.duration_bounds)
        kept.append(Sample(now, traffic.instance_id, calls, durations))
        while now - kept[0].at > KEPT:
            kept.popleft()

    def rates(self) -> dict[str, SlotRates]:
        """Return what each slot did lately, over all targets; those that have been silent for a while do not count."""
        slots: dict[str, SlotRates] = {}
        for kept in self._kept.values():
            newest = kept[-1]
            if self._monotonic() - newest.at > SILENT:
                continue
            first = next(each for each in kept if newest.at - each.at <= WINDOW)
            for key, count in newest.calls.items():
                slot = slots.setdefault(key[0], SlotRates())
                slot.seconds = max(slot.seconds, newest.at - first.at)
                more = count - first.calls.get(key, 0)
                if more > 0:
                    slot.whole.count(key[3], key[4], more)
                    slot.arms.setdefault((key[1], key[2]), Tally()).count(key[3], key[4], more)
            for name, counts in newest.durations.items():
                slot = slots.setdefault(name, SlotRates())
                slot.durations = _sum(slot.durations, _more(counts, first.durations.get(name, ())))
        for name, slot in slots.items():
            slot.p99 = quantile(slot.durations, self._bounds)
            slot.series = self._series(name)
        return slots

    def _series(self, slot: str) -> list[tuple[float, float, float]]:
        """Return points of the target with the longest series, with what other targets did in the same steps."""
        now, points = self._monotonic(), dict[int, tuple[float, float]]()
        for kept in self._kept.values():
            for before, after in zip(kept, list(kept)[1:], strict=False):
                took, offered, failed = after.at - before.at, 0, 0
                for key, count in after.calls.items():
                    if key[0] == slot:
                        more = count - before.calls.get(key, 0)
                        offered += more
                        failed += more if key[3] == outcome_pb2.OUTCOME_FAILED else 0
                place = int((now - after.at) / 5)
                known = points.get(place, (0.0, 0.0))
                points[place] = (max(known[0], offered / took), max(known[1], failed / took))
        return [(place * 5.0, *points[place]) for place in sorted(points, reverse=True)]


def quantile(counts: Sequence[int], bounds: Sequence[float], share: float = P99) -> float | None:
    """Return a quantile out of a histogram, by linear interpolation in its bucket; None: it is empty."""
    rising = list(accumulate(counts))
    if not rising or not rising[-1]:
        return None
    wanted = share * rising[-1]
    place = bisect_left(rising, wanted)
    if place >= len(bounds):
        return bounds[-1]
    low, below = (bounds[place - 1], rising[place - 1]) if place else (0.0, 0)
    return low + (bounds[place] - low) * (wanted - below) / counts[place]


class AuditTail:
    """The newest rows of the audit, read on from where the last visit stopped."""

    def __init__(self) -> None:
        self._rows: deque[Any] = deque(maxlen=ROWS)

    @property
    def seen(self) -> int:
        """The newest sequence."""
        return self._rows[-1].sequence if self._rows else 0

    def add(self, rows: Iterable[Any]) -> None:
        """Take new rows in; some may come twice, by visits at the same time."""
        for row in rows:
            if row.sequence > self.seen:
                self._rows.append(row)

    def newest(self, most: int) -> list[Any]:
        """Return rows, newest first."""
        return list(self._rows)[: -most - 1 : -1]

    def of(self, slot: str) -> list[Any]:
        """Return the rows of a slot, oldest first."""
        return [row for row in self._rows if row.slot == slot]


def _more(after: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    return tuple(one - other for one, other in zip(after, before or [0] * len(after), strict=True))


def _sum(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one or [0] * len(other), other or [0] * len(one), strict=True))
