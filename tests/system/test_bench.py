"""The bench itself, with real servers in processes of their own and a handful of requests."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.benchmark.cohort_checks import USUAL, cohort_checks
from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.peers import AGENTS, TOOL_NODE, installed
from scripts.benchmark.postgres import NOT_INSTALLED, binaries
from scripts.benchmark.report import as_json
from scripts.benchmark.rounds import Plan, run
from scripts.benchmark.targets import (
    BARE,
    BARE_BIND,
    BARE_START,
    BIND,
    FAN_OUT,
    MANY,
    MORE,
    OBSERVED,
    OPEN,
    POLICED,
    POSTGRES,
    SIDECAR,
    SQLITE,
    SQLITE_ASLEEP,
    SQLITE_FAN_OUT,
    START,
    TAKEN_AWAY,
    TWIN,
    UNOBSERVED,
)

pytestmark = pytest.mark.system

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@pytest.mark.seconds(240)
async def test_a_round_measures_every_target() -> None:
    """Two rounds of a few requests: a sample for each target and round, and CPU time that was really spent."""
    plan = Plan(rounds=2, share=0.02)

    series = await run(plan)

    assert {len(samples) for samples in series.values()} == {2}
    assert {(BARE, MANY), (TWIN, MANY), (SIDECAR, MANY), (BARE, 1), (TWIN, 1), (SIDECAR, 1)} <= series.keys()
    assert {(BARE, OPEN), (SQLITE, OPEN), (SQLITE, MANY), (SQLITE, MORE), (SQLITE_ASLEEP, 1)} <= series.keys()
    assert series[SQLITE_FAN_OUT, MANY][0].messages < MOST_CHILDREN
    assert ((POSTGRES, MORE) in series) is (binaries() is not None)
    assert (series.keys() >= {(TOOL_NODE, 1), (AGENTS, 1)}) is installed()
    assert {(UNOBSERVED, MANY), (OBSERVED, MANY), (POLICED, MANY), (BIND, 1), (BARE_BIND, 1)} <= series.keys()
    assert ((TAKEN_AWAY, 1) in series) is (binaries() is not None)
    assert all(sample.rate > 0 for samples in series.values() for sample in samples)
    assert all(sample.p50 > 0 for (target, _), samples in series.items() if target != TAKEN_AWAY for sample in samples)
    assert all(sum(sample.cpu for sample in samples) > 0 for samples in series.values())
    assert len(as_json(series, plan)["targets"]) == len(series)


@pytest.mark.seconds(240)
async def test_chosen_rows_start_only_what_they_need() -> None:
    """Row 13: the twins, which say whether the run is valid, and two replicas from which slots are taken away."""
    if binaries() is None:
        pytest.skip(NOT_INSTALLED)

    series = await run(Plan(rounds=1, share=0.2, rows=frozenset({13})))

    assert series.keys() == {(BARE, MANY), (TWIN, MANY), (BARE, 1), (TWIN, 1), (TAKEN_AWAY, 1)}
    (sample,) = series[TAKEN_AWAY, 1]
    assert len(sample.seen) == 4


@pytest.mark.seconds(240)
async def test_starts_are_measured_beside_a_bare_servers() -> None:
    """Row 11: each start until the process listens, and what CPU time it took until then."""
    series = await run(Plan(rounds=1, share=0.02, databases=False, rows=frozenset({11})))

    assert series.keys() == {(BARE, MANY), (TWIN, MANY), (BARE, 1), (TWIN, 1), (BARE_START, 1), (START, 1)}
    assert series[START, 1][0].cpu > 0


@pytest.mark.seconds(240)
async def test_a_whole_round_of_cohort_checks_is_answered() -> None:
    """As many users as a real round has, which is a long line; a cohort check is of the order of microseconds."""
    async with cohort_checks(None) as checks:
        sample = await checks.measure(USUAL)

    assert len(sample.seen) == USUAL
    assert sample.cpu > 0


def test_a_row_that_cannot_be_measured_is_refused() -> None:
    """It says which can."""
    command = [sys.executable, "-m", "scripts.bench", "--rows", "8,2"]

    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)

    assert ended.returncode == 2
    assert "only these rows can be measured: 0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 13" in ended.stderr


@pytest.mark.seconds(240)
async def test_the_bare_stream_tells_one_by_one_what_the_sidecar_folds() -> None:
    """Six messages for what the sidecar says of one child; eight children never take eight times as many."""
    series = await run(Plan(rounds=1, share=0.02, databases=False, rows=frozenset({0, 6})))

    assert [sample.messages for sample in series[BARE, MANY]] == [6]
    assert series[SIDECAR, MANY][0].messages < 6
    assert series[FAN_OUT, MANY][0].messages < MOST_CHILDREN


def test_a_run_in_which_the_same_server_differs_is_void() -> None:
    """A twin that waits 50 ms before each answer: exit code 1, the reason on standard error, no table."""
    few = ["--rounds", "1", "--share", "0.02", "--no-databases", "--rows", "0"]
    command = [sys.executable, "-m", "scripts.bench", *few, "--twin-delay", "0.05"]

    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)

    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith("void: the same server twice differed by")
