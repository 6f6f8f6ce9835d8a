"""What the bench makes of its numbers."""

from dataclasses import replace
from io import StringIO
from typing import Final

import pytest
from rich.console import Console

from scripts.benchmark.aims import aims
from scripts.benchmark.bare_server import unfolded
from scripts.benchmark.durable.peers import (
    DBOS_POSTGRES,
    DBOS_SQLITE,
    RESTATE_CALLS,
    RESTATE_STEPS,
    Here,
    here,
    missing,
)
from scripts.benchmark.load import Sample, sample_of
from scripts.benchmark.peers import AGENTS, INSTANT_NODE, SAVED, TOOL_NODE
from scripts.benchmark.plan import Plan
from scripts.benchmark.report import as_json, show
from scripts.benchmark.rounds import Series, twins_agree
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
    SIDECAR,
    SQLITE,
    SQLITE_ASLEEP,
    SQLITE_BIND,
    SQLITE_END,
    SQLITE_FAN_OUT,
    START,
    TAKEN_AWAY,
    TWIN,
    UNOBSERVED,
)
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2

DURABLE_PEERS = frozenset({SAVED, DBOS_SQLITE, DBOS_POSTGRES, RESTATE_STEPS, RESTATE_CALLS})
IN_A_DATABASE = frozenset(
    {SQLITE, SQLITE_FAN_OUT, SQLITE_ASLEEP, POSTGRES, TAKEN_AWAY, SQLITE_BIND, SQLITE_END, *DURABLE_PEERS}
)


NODES = frozenset({TOOL_NODE, INSTANT_NODE, SAVED, AGENTS})


def sample(
    rate: float = 1000.0, p50: float = 0.001, cpu: float = 0.0005, messages: int = 1, p99: float = 0.002
) -> Sample:
    """Return what one target did in one round."""
    return Sample(rate, p50, cpu, messages, float(messages), p99)


def over_lanes() -> dict[str, tuple[tuple[str, int], Sample]]:
    """Return the part of the series that is about the session lane."""
    return {
        "bare_64": ((BARE, MORE), sample(1000, messages=6)),
        "twin_64": ((TWIN, MORE), sample(1000, messages=6)),
        "lane_16": ((LANE, MANY), sample(1300, cpu=0.0004)),
        "lane_64": ((LANE, MORE), sample(1500)),
        "lane_1": ((LANE, 1), sample(p50=0.0008)),
        "lane_asleep_1": ((LANE_ASLEEP, 1), sample(p50=0.023)),
        "lane_bind_1": ((LANE_BIND, 1), sample(p50=0.0011)),
        "lane_bind_16": ((LANE_BIND, MANY), sample(p50=0.0009)),
        "lane_stalled_16": ((LANE_STALLED, MANY), sample(1170)),
        "idle_lanes_1": ((IDLE_LANES, 1), replace(sample(), kept_bytes=24 * 1024)),
        "instant_node_1": ((INSTANT_NODE, 1), sample()),
    }


def a_series(**changed: list[Sample]) -> Series:
    """Return three rounds in which everything is met, but for what is changed, by `<target>_<in flight>`."""
    usual = {
        "bare_16": ((BARE, MANY), sample(1000, messages=6)),
        "twin_16": ((TWIN, MANY), sample(1000, messages=6)),
        "bare_1": ((BARE, 1), sample(500, messages=6)),
        "twin_1": ((TWIN, 1), sample(500, messages=6)),
        "sidecar_16": ((SIDECAR, MANY), sample(980, cpu=0.0004)),
        "sqlite_16": ((SQLITE, MANY), replace(sample(900, cpu=0.0006), not_listed=20)),
        "sqlite_64": ((SQLITE, MORE), sample(1000)),
        "sqlite_fan_out_16": ((SQLITE_FAN_OUT, MANY), sample(300, cpu=0.0006 + 7 * 0.00004, messages=2)),
        "sqlite_asleep_1": ((SQLITE_ASLEEP, 1), sample(40, p50=0.024)),
        "postgres_64": ((POSTGRES, MORE), sample(850)),
        "postgres_16": ((POSTGRES, MANY), sample(800)),
        "bare_open": ((BARE, OPEN), sample(500, p99=0.002)),
        "sidecar_open": ((SIDECAR, OPEN), sample(490, p99=0.003)),
        "sqlite_open": ((SQLITE, OPEN), sample(450, p99=0.004)),
        "unobserved_16": ((UNOBSERVED, MANY), sample(1000, cpu=0.0005)),
        "observed_16": ((OBSERVED, MANY), sample(950, cpu=0.0006)),
        "fan_out_16": ((FAN_OUT, MANY), sample(400, cpu=0.0004 + 7 * 0.00005, messages=2)),
        "asleep_1": ((ASLEEP, 1), sample(40, p50=0.024)),
        "tool_node_1": ((TOOL_NODE, 1), sample(38, p50=0.026)),
        "saved_1": ((SAVED, 1), sample(30, p50=0.032)),
        "agents_1": ((AGENTS, 1), sample(20, p50=0.040)),
        "dbos_sqlite_1": ((DBOS_SQLITE, 1), sample(10, p50=0.100)),
        "dbos_postgres_1": ((DBOS_POSTGRES, 1), sample(20, p50=0.060)),
        "restate_steps_1": ((RESTATE_STEPS, 1), sample(30, p50=0.030)),
        "restate_calls_1": ((RESTATE_CALLS, 1), sample(20, p50=0.052)),
        "echo_16": ((ECHO, MANY), sample(3000, cpu=0.0003)),
        "policed_16": ((POLICED, MANY), sample(1000, cpu=0.000510)),
        "bind_16": ((BIND, MANY), sample(1500)),
        "bare_bind_16": ((BARE_BIND, MANY), sample(3000)),
        "bind_1": ((BIND, 1), sample(p50=0.0011)),
        "bare_bind_1": ((BARE_BIND, 1), sample(p50=0.001)),
        "cohort_1": ((COHORT, 1), sample_of([0.000002] * 50, 1.0, 0.0)),
        "bare_start_1": ((BARE_START, 1), sample(cpu=0.08)),
        "start_1": ((START, 1), sample(cpu=0.2)),
        "plain_bind_16": ((PLAIN_BIND, MANY), sample(cpu=0.0004)),
        "sqlite_bind_16": ((SQLITE_BIND, MANY), sample(cpu=0.0005)),
        "end_16": ((END, MANY), sample(cpu=0.0006)),
        "sqlite_end_16": ((SQLITE_END, MANY), sample(cpu=0.0007)),
        "taken_away_1": ((TAKEN_AWAY, 1), sample_of([0.001] * 49 + [0.2], 1.0, 0.0)),
        **over_lanes(),
    }
    return {key: changed.get(name, [usually] * 3) for name, (key, usually) in usual.items()}


@pytest.mark.parametrize(("rate", "agree"), [(901, True), (899, False), (1099, True), (1101, False)])
def test_the_same_server_twice_may_differ_by_a_tenth(rate: float, agree: bool) -> None:
    """By the medians: one round that is far out does no harm."""
    series = a_series(twin_16=[sample(rate), sample(rate), sample(50_000)])

    valid, ratios = twins_agree(series)

    assert valid is agree
    assert ratios == {1: 1.0, MANY: rate / 1000, MORE: 1.0}


def test_a_difference_with_one_or_with_64_in_flight_voids_the_run_too() -> None:
    """Alike under some load, unlike alone or under more."""
    assert not twins_agree(a_series(twin_1=[sample(400)] * 3))[0]
    assert not twins_agree(a_series(twin_64=[sample(800)] * 3))[0]


REACHED: Final = [
    (0, 0.98, True),
    (1, 0.9, True),
    (1, 0.8, None),
    (1, 20, True),
    (3, 24.0, True),
    (4, 4.0, None),
    (4, 0.667, True),
    (4, 0.333, True),
    (4, 0.2, True),
    (4, 0.05, None),
    (4, 0.1, None),
    (4, 0.4, None),
    (4, 0.125, None),
    (6, 40.0, True),
    (6, 0.133, True),
    (6, 0.08, True),
    (6, 2, True),
    (6, 50.0, True),
    (6, 0.167, True),
    (6, 0.1, True),
    (6, 2, True),
    (7, 0.95, True),
    (7, 1.2, None),
    (7, 1.02, True),
    (8, 2.0, True),
    (8, 1.1, True),
    (8, 0.5, None),
    (8, 1.0, None),
    (9, 2.0, True),
    (9, 1.5, None),
    (10, 0.85, True),
    (11, 2.5, True),
    (13, 200.0, True),
    (13, 1.0, None),
    (14, 1.4, True),
    (14, 1.2, True),
    (2, 1.3, True),
    (2, 1.5, True),
    (2, 0.8, None),
    (2, 23.0, True),
    (2, 0.5, True),
    (2, 1.1, True),
    (2, 0.9, True),
    (2, 24.0, True),
    (5, 0.8, True),
    (12, 0.9, None),
    (15, 1.25, None),
]
"""What `aims` says of a run in which everything is met: row, value, and whether it is."""


def test_what_is_reached_counts_as_met() -> None:
    """A rate of 0.98, 40 us a durable child, two messages; and what is shown for information."""
    found = aims(a_series())

    assert [(aim.row, round(aim.value or 0, 3), aim.met) for aim in found] == REACHED


@pytest.mark.parametrize(
    ("target", "worse", "missed"),
    [
        ("sidecar_16", sample(899, cpu=0.0004), [0]),
        ("sqlite_16", sample(649, cpu=0.0006), [1]),
        ("sqlite_asleep_1", sample(p50=0.0261), [3, 4, 4, 4]),
        ("tool_node_1", sample(p50=0.0249), [4]),
        ("lane_16", sample(1199), [2]),
        ("lane_64", sample(1399), [2]),
        ("lane_asleep_1", sample(p50=0.0241), [2, 2]),
        ("lane_bind_1", sample(p50=0.00116), [2]),
        ("lane_bind_16", sample(p50=0.00116), [2]),
        ("idle_lanes_1", replace(sample(), kept_bytes=48 * 1024 + 1), [2]),
        ("lane_1", sample(p50=0.00101), [5]),
        ("saved_1", sample(p50=0.0279), [4]),
        ("agents_1", sample(p50=0.0359), [4]),
        ("observed_16", sample(919), [7]),
        ("fan_out_16", sample(cpu=0.0004 + 7 * 0.000065), [6, 6]),
        ("sqlite_fan_out_16", sample(cpu=0.0006 + 7 * 0.000065), [6, 6]),
        ("fan_out_16", sample(cpu=0.0004 + 7 * 0.000076), [6, 6, 6]),
        ("sqlite_fan_out_16", sample(cpu=0.0006 + 7 * 0.000101), [6, 6, 6]),
        ("sqlite_fan_out_16", sample(cpu=0.0006, messages=4), [6]),
        ("sqlite_open", sample(p99=0.0051), [9]),
        ("postgres_64", sample(799), [10]),
        ("end_16", sample(cpu=0.00076), [14]),
        ("sqlite_end_16", sample(cpu=0.00076), [14]),
        ("policed_16", sample(cpu=0.000516), [7]),
        ("bind_1", sample(p50=0.00116), [8]),
        ("cohort_1", sample_of([0.0000051] * 50, 1.0, 0.0), [8]),
        ("start_1", sample(cpu=0.201), [11]),
        ("taken_away_1", sample_of([0.001] * 49 + [0.251], 1.0, 0.0), [13]),
    ],
)
def test_what_is_not_reached_counts_as_missed(target: str, worse: Sample, missed: list[int]) -> None:
    """Just beyond each aim; the others stay met."""
    found = aims(a_series(**{target: [worse] * 3}))

    assert [aim.row for aim in found if aim.met is False] == missed


def test_lists_that_fall_behind_are_a_missed_aim() -> None:
    """More facts than a list reads itself, and more than in the first half: what is durable is not yet listed."""
    behind = [replace(sample(900, cpu=0.0006), not_listed=lag) for lag in (500, 700, 601)]

    assert [aim.row for aim in aims(a_series(sqlite_16=behind)) if aim.met is False] == [1]
    assert [aim.row for aim in aims(a_series(sqlite_16=[behind[1], *behind[1:]])) if aim.met is False] == []


def test_without_databases_their_rows_say_so_and_sleepers_are_judged_without_one() -> None:
    """Rows 1, 9 and 10, and a durable child of row 6; the sleepers' row says what it is about."""
    series = {key: samples for key, samples in a_series().items() if key[0] not in IN_A_DATABASE}

    found = aims(series)

    missing_rows = [1, 1, 1, 4, 4, 4, 4, 4, 6, 6, 6, 6, 9, 10, 13, 13, 14, 15]
    assert [aim.row for aim in found if aim.value is None] == missing_rows
    assert all(aim.met is None and aim.remark for aim in found if aim.value is None)
    assert [aim.what.split(", ")[1] for aim in found if aim.row == 3] == ["without a store"]


def test_without_langgraph_its_rows_say_so_and_nothing_is_missed() -> None:
    """Every row of the comparison, in the table and for programs; the other aims are judged as ever."""
    series = {key: samples for key, samples in a_series().items() if key[0] not in NODES}
    printed = StringIO()

    show(series, Plan(rounds=3), Console(file=printed, width=300))

    compared = [aim for aim in as_json(series, Plan(rounds=3))["aims"] if aim["value"] is None]
    assert [aim["row"] for aim in compared] == [4, 4, 4, 2, 5]
    assert {(aim["met"], aim["remark"]) for aim in compared} == {(None, "LangGraph not installed")}
    assert printed.getvalue().count("LangGraph not installed") == 5
    assert not any(aim.met is False for aim in aims(series))


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ("dbos", dict.fromkeys((DBOS_SQLITE, DBOS_POSTGRES), "DBOS not installed")),
        ("restate", dict.fromkeys((RESTATE_STEPS, RESTATE_CALLS), "Restate not installed")),
        ("server", dict.fromkeys((RESTATE_STEPS, RESTATE_CALLS), "Restate not installed")),
        ("network", dict.fromkeys((RESTATE_STEPS, RESTATE_CALLS), "no network namespace for Restate")),
        ("postgres", {DBOS_POSTGRES: "PostgreSQL not installed"}),
    ],
)
def test_a_durable_peer_that_cannot_be_measured_says_why(absent: str, said: dict[str, str]) -> None:
    """Whatever is absent of it: package, server, network, database. The others could be measured."""
    there = dict.fromkeys(("dbos", "restate", "server", "network", "postgres"), True)

    why = missing(Here(**there | {absent: False}))

    assert {target: each for target, each in why.items() if each != "not measured"} == said
    assert list(why) == [DBOS_SQLITE, DBOS_POSTGRES, RESTATE_STEPS, RESTATE_CALLS]


def test_without_durable_peers_their_rows_say_so_and_nothing_is_missed() -> None:
    """What is said is what is missing here; the rest of the comparison is judged as ever."""
    peers = missing(here())
    series = {key: samples for key, samples in a_series().items() if key[0] not in peers}

    found = aims(series)

    assert [aim.remark for aim in found if aim.row == 4 and aim.value is None] == list(peers.values())
    assert not any(aim.met is False for aim in found)


def test_the_json_holds_every_target_with_its_spread() -> None:
    """In microseconds, with the environment and the aims."""
    rounds = [sample(100, p50=0.001, cpu=0.0001), sample(300, p50=0.003, cpu=0.0003, p99=0.009), sample(200)]

    told = as_json(a_series(echo_16=rounds), Plan(rounds=3, server_cpu=0, client_cpu=1))

    echo = next(target for target in told["targets"] if target["target"] == ECHO)
    assert echo == {
        "target": ECHO,
        "in_flight": 16,
        "rate": {"median": 200, "min": 100, "max": 300},
        "p50_us": {"median": 1000, "min": 1000, "max": 3000},
        "p99_us": {"median": 2000, "min": 2000, "max": 9000},
        "cpu_us": {"median": pytest.approx(300), "min": pytest.approx(100), "max": pytest.approx(500)},
        "messages": {"mean": 1, "max": 1},
    }
    assert told["same_server_twice"] == {"1": 1.0, "16": 1.0, "64": 1.0}
    assert told["environment"].keys() >= {"python", "grpcio", "cores", "rounds", "server_cpu", "client_cpu"}
    assert {aim["row"] for aim in told["aims"]} == set(range(16))


def test_only_the_rows_that_were_asked_for_are_judged() -> None:
    """Nothing is said of the others, not even that they were not measured."""
    series = {key: a_series()[key] for key in ((BARE, MANY), (TWIN, MANY), (BARE, 1), (TWIN, 1), (TAKEN_AWAY, 1))}

    assert [aim.row for aim in aims(series, frozenset({13}))] == [13, 13]
    assert [aim.row for aim in aims(series, frozenset({3, 4, 8})) if aim.value is not None] == []


def test_the_p99_of_all_rounds_is_looked_at_and_not_that_of_one() -> None:
    """One slow action in 150 is not what one in a hundred exceeds; two are."""
    one, two = [0.001] * 149 + [9.0], [0.001] * 148 + [9.0] * 2
    found = [aims(a_series(taken_away_1=[sample_of(each, 1.0, 0.0)]), frozenset({13}))[0].met for each in (one, two)]

    assert found == [True, False]


def test_a_share_of_the_requests_still_fills_what_is_in_flight() -> None:
    """A tiny run measures something, too."""
    plan = Plan(rounds=1, share=0.01)

    assert (plan.requests(480, 16), plan.requests(480, 1)) == (16, 5)


def test_the_bare_stream_has_a_message_for_each_thing_that_a_dispatch_tells() -> None:
    """Snapshot, four events, result: six messages that together are the same bytes."""
    whole = pb.DispatchFrame(
        snapshot=pb.DispatchSnapshot(dispatch_id="d"),
        events=[pb.DispatchEvent(sequence=number) for number in range(1, 5)],
        result=pb.DispatchResult(cap=outcome_pb2.CAP_BEHAVIOUR_WITHIN),
    )

    messages = unfolded(whole)

    together = pb.DispatchFrame()
    for message in messages:
        together.MergeFrom(message.frame)
    assert len(messages) == 6
    assert together == whole
