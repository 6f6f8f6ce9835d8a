"""What one sidecar has served since its start, by slot, and what it serves now."""

from collections.abc import Mapping, Sequence

import msgspec


class ServedCalls(msgspec.Struct, frozen=True):
    """The number of calls with one outcome. `labels`: of the metric `sidecar.child.calls_total`, in order."""

    labels: tuple[str, ...]
    count: int


class SlotTraffic(msgspec.Struct, frozen=True):
    """The traffic of one slot.

    Attributes:
        durations: calls that ran, by duration, in the buckets of `Traffic.bounds`, and one bucket beyond them.
        breakers: the targets of breakers that are not closed; True: half open.
    """

    in_flight: int = 0
    durations: Sequence[int] = ()
    breakers: Mapping[str, bool] = {}


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a sidecar.

    Attributes:
        bounds: upper ends of the buckets of durations, in seconds.
        limits: number of refused requests, by limit.
        dispatches, most_dispatches: number of running dispatches, and the limit.
    """

    calls: Sequence[ServedCalls] = ()
    slots: Mapping[str, SlotTraffic] = {}
    bounds: Sequence[float] = ()
    limits: Mapping[str, int] = {}
    dispatches: int = 0
    most_dispatches: int = 0
