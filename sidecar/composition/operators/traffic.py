"""Reads the traffic of each definition from the metrics and the running calls.

Imported at the first request of an operator.
"""

from collections import defaultdict

from sidecar.core.executing.retries import BreakerState
from sidecar.observability import call_names, names
from sidecar.observability.metrics import Counter, Histogram, Metrics
from sidecar.operations.process.traffic import ServedCalls, SlotTraffic, Traffic
from sidecar.operations.process.turn_assembly import Operations


def read_traffic(metrics: Metrics, operations: Operations) -> Traffic:
    """Return the present counters."""
    by_name = {each.name: each for each in metrics}
    calls, limits = by_name.get(call_names.CALLS), by_name.get(call_names.ADMISSION_REFUSED)
    durations = by_name.get(names.CHILD_SECONDS)
    places = operations.dispatch_calls.places
    return Traffic(
        calls=[ServedCalls(key, int(count)) for key, count in _series(calls)],
        slots=_slots(durations, operations),
        bounds=durations.bounds if isinstance(durations, Histogram) else (),
        limits={limit: int(count) for (limit,), count in _series(limits) if count},
        dispatches=places.taken,
        most_dispatches=places.most,
    )


def _series(metric: object) -> list[tuple[tuple[str, ...], float]]:
    return sorted(metric.series.items()) if isinstance(metric, Counter) else []


def _slots(durations: object, operations: Operations) -> dict[str, SlotTraffic]:
    running = {str(slot): count for slot, count in operations.dispatch_calls.places.by_slot.items()}
    buckets: dict[str, list[int]] = {}
    breakers: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    # A series for each slot and outcome; the buckets of one slot are added.
    for (slot, *_), each in durations.series.items() if isinstance(durations, Histogram) else ():
        sums = buckets.get(slot, [0] * len(each.counts))
        buckets[slot] = [total + count for total, count in zip(sums, each.counts, strict=True)]
    for target, breaker_slot, state in operations.breakers.not_closed():
        breakers[breaker_slot][target] = state is BreakerState.HALF_OPEN
    # A slot may have only one of the three, e.g. an open breaker and no running or ended call.
    slots = sorted({*running, *buckets, *breakers})
    return {slot: SlotTraffic(running.get(slot, 0), buckets.get(slot, ()), breakers.get(slot, {})) for slot in slots}
