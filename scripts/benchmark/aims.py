"""What the numbers should be: the rows of DESIGN section 14, and whether each is met."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from scripts.benchmark.definitions import MOST_CHILDREN, SLEEP_SECONDS
from scripts.benchmark.durable.peers import NOT_MEASURED, here, missing
from scripts.benchmark.load import Sample, p99_of
from scripts.benchmark.peers import AGENTS, INSTANT_NODE, NOT_INSTALLED, SAVED, TOOL_NODE
from scripts.benchmark.postgres import NOT_INSTALLED as NO_POSTGRES
from scripts.benchmark.postgres import binaries
from scripts.benchmark.rounds import Series
from scripts.benchmark.targets import (
    ASLEEP,
    BARE,
    BARE_BIND,
    BARE_START,
    BIND,
    COHORT,
    ECHO,
    END,
    FAN_OUT,
    IDLE_LANES,
    LANE,
    LANE_ASLEEP,
    LANE_BIND,
    LANE_STALLED,
    MANY,
    MORE,
    OBSERVED,
    OPEN,
    PLAIN_BIND,
    POLICED,
    POSTGRES,
    ROWS,
    SIDECAR,
    SQLITE,
    SQLITE_ASLEEP,
    SQLITE_BIND,
    SQLITE_END,
    SQLITE_FAN_OUT,
    START,
    TAKEN_AWAY,
    UNOBSERVED,
)
from sidecar.operations.record.lists import MOST_CHANGES

MICROSECONDS: Final = 1e6
MILLISECONDS: Final = 1e3
KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Aim:
    """One thing to reach; `row` is of the table in DESIGN section 14.

    Attributes:
        value: None if it could not be measured.
        wanted: e.g. `at least 0.9`; empty: shown for information only.
        met: None where nothing is wanted, or nothing was measured.
        remark: shown where there is no value.
    """

    row: int
    what: str
    value: float | None
    unit: str
    wanted: str = ""
    met: bool | None = None
    remark: str = ""


def aims(series: Series, rows: frozenset[int] = ROWS) -> Sequence[Aim]:
    """Compare what was measured with what it should be; everything is a median over the rounds.

    Without databases, rows that want a durable record are measured without one.
    """
    asleep = SQLITE_ASLEEP if (SQLITE_ASLEEP, 1) in series else ASLEEP
    kept = "durable" if asleep == SQLITE_ASLEEP else "without a store"
    all_aims = (
        _at_least(0, "rate with 1 child, without a store, against a bare stream of the same six messages",
                  _compared(series, "rate", SIDECAR, BARE), "x", 0.9),
        _at_least(1, "the same, durable in SQLite", _compared(series, "rate", SQLITE, BARE), "x", 0.65),
        Aim(1, "the same, durable in PostgreSQL", _compared(series, "rate", POSTGRES, BARE), "x",
            remark=NOT_MEASURED if binaries() else NO_POSTGRES),
        _lists_keep_up(series),
        _at_most(3, f"{MOST_CHILDREN} children that sleep 20 ms, {kept}, one dispatch at a time: p50",
                 _milliseconds(series, asleep), "ms", 25),
        *_beside_peers(series, asleep),
        *_further_children(series),
        *_what_else_is_on(series),
        *_binding(series),
        _at_most(9, "p99 at half of the own rate, durable in SQLite, against the bare stream's at half of its own",
                 _compared(series, "p99", SQLITE, BARE, OPEN), "x", 2.5),
        Aim(9, "the same without a store", _compared(series, "p99", SIDECAR, BARE, OPEN), "x"),
        _at_least(10, f"rate with PostgreSQL and {MORE} in flight, against SQLite",
                  _compared(series, "rate", POSTGRES, SQLITE, MORE), "x", 0.8,
                  NOT_MEASURED if binaries() else NO_POSTGRES),
        _at_most(11, "CPU of a start, against a bare one's", _compared(series, "cpu", START, BARE_START, 1), "x", 2.5),
        *_taken_away(series),
        _at_most(14, "server CPU of EndTurn of four dispatches, durable in SQLite, against the bare stream's",
                 _compared(series, "cpu", SQLITE_END, BARE), "x", 1.5),
        _at_most(14, "the same without a store", _compared(series, "cpu", END, BARE), "x", 1.5),
        *_over_lanes(series),
        Aim(15, "server CPU of BindTurn of a new episode, durable in SQLite, against without a store",
            _compared(series, "cpu", SQLITE_BIND, PLAIN_BIND), "x", remark=NOT_MEASURED),
    )  # fmt: skip
    return [aim for aim in all_aims if aim.row in rows]


def _lists_keep_up(series: Series) -> Aim:
    """Say whether the projector kept up with the dispatches in SQLite: durable figures mean little if it did not."""
    rounds = zip(*(samples for (target, _), samples in series.items() if target == SQLITE), strict=True)
    lags = [max(sample.not_listed or 0 for sample in samples) for samples in rounds]
    what = "facts that lists lack after dispatches in SQLite, most in the second half of the rounds"
    if len(lags) < 2:  # noqa: PLR2004  two halves
        return Aim(1, what, None, "facts", remark=NOT_MEASURED)
    first, second = max(lags[: len(lags) // 2]), max(lags[len(lags) // 2 :])
    return _at_most(1, what, second, "facts", max(MOST_CHANGES, first))


def _over_lanes(series: Series) -> Sequence[Aim]:
    """Compare the session lane with a bare stream for each dispatch; the issue "The session lane" holds it to these."""
    no_peer = NOT_MEASURED if (TOOL_NODE, 1) in series or (INSTANT_NODE, 1) in series else NOT_INSTALLED
    idle = _median(series, IDLE_LANES, "kept_bytes", 1) / KIB if (IDLE_LANES, 1) in series else None
    return (
        _at_least(2, f"rate over the session lane, {MANY} in flight, against a bare stream for each dispatch",
                  _compared(series, "rate", LANE, BARE), "x", 1.2),
        _at_least(2, f"the same with {MORE} in flight", _compared(series, "rate", LANE, BARE, MORE), "x", 1.4),
        Aim(2, f"the same: server CPU with {MANY} in flight", _compared(series, "cpu", LANE, BARE), "x",
            remark=NOT_MEASURED),
        _at_most(2, f"{MOST_CHILDREN} children that sleep 20 ms, over the lane: p50",
                 _milliseconds(series, LANE_ASLEEP), "ms", 24),
        _beside(series, LANE_ASLEEP, TOOL_NODE, 0.65, no_peer, row=2),
        _at_most(2, "BindTurn over the lane, against a bare unary echo: p50, one at a time",
                 _compared(series, "p50", LANE_BIND, BARE_BIND, 1), "x", 1.15),
        _at_most(2, f"the same: p50 with {MANY} in flight", _compared(series, "p50", LANE_BIND, BARE_BIND), "x", 1.15),
        _at_most(2, "memory of an idle lane", idle, "KiB", 48),
        _at_most(5, "one instant child over the lane, against ToolNode: p50",
                 _compared(series, "p50", LANE, INSTANT_NODE, 1), "x", 1.0, no_peer),
        Aim(12, "rate over the lane beside a client that stops reading, against without",
            _compared(series, "rate", LANE_STALLED, LANE), "x", remark=NOT_MEASURED),
    )  # fmt: skip


def _what_else_is_on(series: Series) -> Sequence[Aim]:
    return (
        _at_least(7, "rate with 1 % of traces, log records and metrics going to a collector, against without",
                  _compared(series, "rate", OBSERVED, UNOBSERVED), "x", 0.92),
        Aim(7, "server CPU with, against without", _compared(series, "cpu", OBSERVED, UNOBSERVED), "x"),
        _at_most(7, "server CPU with three lifecycle policies and an audit sink, against without",
                 _compared(series, "cpu", POLICED, UNOBSERVED), "x", 1.03),
    )  # fmt: skip


def _binding(series: Series) -> Sequence[Aim]:
    check = _pooled(series, COHORT, median)
    return (
        _at_most(8, "cohort check of a sub-agent with a ramp and two flags: p50",
                 None if check is None else check * MICROSECONDS, "us", 5),
        _at_most(8, "BindTurn with ramps, against a bare unary echo of the same bytes: p50, one at a time",
                 _compared(series, "p50", BIND, BARE_BIND, 1), "x", 1.15),
        Aim(8, f"the same: rate with {MANY} in flight", _compared(series, "rate", BIND, BARE_BIND), "x"),
        Aim(8, f"the same: server CPU with {MANY} in flight", _compared(series, "cpu", BIND, BARE_BIND), "x"),
    )  # fmt: skip


def _taken_away(series: Series) -> Sequence[Aim]:
    """Judge all rounds together: one of them has too few actions for a p99."""
    p99, p50 = _pooled(series, TAKEN_AWAY, p99_of), _pooled(series, TAKEN_AWAY, median)
    count = sum(len(sample.seen) for sample in series.get((TAKEN_AWAY, 1), ()))
    missing = NOT_MEASURED if binaries() else NO_POSTGRES
    what = f"from a kill or rollback accepted to a bind without it, two replicas on PostgreSQL, {count} times: p99"
    return (
        _at_most(13, what, None if p99 is None else p99 * MILLISECONDS, "ms", 250, missing),
        Aim(13, "the same: p50", None if p50 is None else p50 * MILLISECONDS, "ms", remark=missing),
    )


def _pooled(series: Series, target: str, of: Callable[[Sequence[float]], float]) -> float | None:
    """Return a figure of the latencies of all rounds, in seconds; None if there are none."""
    seen = [each for sample in series.get((target, 1), ()) for each in sample.seen]
    return of(seen) if seen else None


def _further_children(series: Series) -> Sequence[Aim]:
    found: list[Aim] = []
    for one, eight, kept, most in (
        (SQLITE, SQLITE_FAN_OUT, "durable in SQLite", 0.2),
        (SIDECAR, FAN_OUT, "without a store", 0.15),
    ):
        further = echoes = streams = messages = None
        if {(eight, MANY), (one, MANY), (ECHO, MANY), (BARE, MANY)} <= series.keys():
            further = (_median(series, eight, "cpu") - _median(series, one, "cpu")) / (MOST_CHILDREN - 1)
            echoes = further / _median(series, ECHO, "cpu")
            streams = further / _median(series, BARE, "cpu")
            messages = max(sample.messages for sample in series[eight, MANY])
            further *= MICROSECONDS
        found += [
            _at_most(6, f"server CPU of each further child, {kept}", further, "us", 60),
            _at_most(6, "the same, in bare unary echoes", echoes, "x", 0.2),
            _at_most(6, "the same, in bare streams of six messages", streams, "x", most),
            _at_most(6, f"most messages of a dispatch of {MOST_CHILDREN}", messages, "", 3),
        ]
    return found


def _beside_peers(series: Series, asleep: str) -> Sequence[Aim]:
    """Compare what a turn of sleeping sub-agents takes beyond their sleep with what it takes in other frameworks."""
    own = _overhead(series, asleep) * MILLISECONDS if (asleep, 1) in series else None
    langgraph = NOT_MEASURED if (TOOL_NODE, 1) in series else NOT_INSTALLED
    return (
        Aim(4, "the same beyond the 20 ms", own, "ms", remark=NOT_MEASURED if own is None else ""),
        _beside(series, asleep, TOOL_NODE, 0.8, langgraph),
        _beside(series, asleep, SAVED, 0.5, langgraph),
        _beside(series, asleep, AGENTS, 0.25, langgraph),
        *(_beside(series, asleep, peer, None, why) for peer, why in missing(here()).items()),
    )


def _beside(series: Series, asleep: str, peer: str, most: float | None, remark: str, row: int = 4) -> Aim:
    what, value = f"the same beyond the 20 ms, against {peer}", None
    if {(peer, 1), (asleep, 1)} <= series.keys():
        beyond = _overhead(series, peer)
        what += f" (+{beyond * MILLISECONDS:.1f} ms)"
        value = _overhead(series, asleep) / beyond
    return (
        Aim(row, what, value, "x", remark=remark if value is None else "")
        if most is None
        else _at_most(row, what, value, "x", most, remark)
    )


def _milliseconds(series: Series, target: str) -> float | None:
    return _median(series, target, "p50", 1) * MILLISECONDS if (target, 1) in series else None


def _overhead(series: Series, target: str) -> float:
    return _median(series, target, "p50", 1) - SLEEP_SECONDS


def _at_least(row: int, what: str, value: float | None, unit: str, least: float, remark: str = NOT_MEASURED) -> Aim:
    wanted = f"at least {least:g} {unit}".strip()
    if value is None:
        return Aim(row, what, None, unit, wanted, remark=remark)
    return Aim(row, what, value, unit, wanted, value >= least)


def _at_most(row: int, what: str, value: float | None, unit: str, most: float, remark: str = NOT_MEASURED) -> Aim:
    wanted = f"at most {most:g} {unit}".strip()
    if value is None:
        return Aim(row, what, None, unit, wanted, remark=remark)
    return Aim(row, what, value, unit, wanted, value <= most)


def _compared(series: Series, field: str, target: str, with_: str, in_flight: int = MANY) -> float | None:
    """Return the ratio of two medians; None if one was not measured."""
    if not {(target, in_flight), (with_, in_flight)} <= series.keys():
        return None
    return _median(series, target, field, in_flight) / _median(series, with_, field, in_flight)


def _median(series: Series, target: str, field: str, in_flight: int = MANY) -> float:
    return median(_values(series[target, in_flight], field))


def _values(samples: Sequence[Sample], field: str) -> list[float]:
    return [float(getattr(sample, field)) for sample in samples]
