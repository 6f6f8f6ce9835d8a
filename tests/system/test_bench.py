"""The bench itself, with real servers in processes of their own and a handful of requests.

Starting them is nearly all that this costs, so that each test looks at everything that its servers can show.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from scripts import bench
from scripts.benchmark.cohort_checks import USUAL, cohort_checks
from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.durable.peers import here, missing
from scripts.benchmark.peers import AGENTS, INSTANT_NODE, SAVED, TOOL_NODE, installed
from scripts.benchmark.plan import Plan
from scripts.benchmark.postgres import binaries
from scripts.benchmark.processes import REPOSITORY
from scripts.benchmark.replicas import COUNT as REPLICAS
from scripts.benchmark.report import as_json
from scripts.benchmark.revisions import LOCK
from scripts.benchmark.rounds import run
from scripts.benchmark.targets import (
    BARE,
    BARE_BIND,
    BARE_START,
    BIND,
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
    at,
)
from tests.support.git_commands import git

pytestmark = pytest.mark.system

RUNNER: Final = "scripts/benchmark/instant_runner.py"
WAITING_SECONDS: Final = 0.05


@pytest.mark.seconds(240)
async def test_a_round_measures_every_target() -> None:
    """A round of a few requests: a sample for each target, and CPU time that was really spent.

    The bare stream tells one by one what the sidecar folds: six messages for what it says of one child in fewer; eight
    children never take eight times as many.
    """
    plan = Plan(rounds=1, share=0.02, warms_up=False)

    series = await run(plan)

    assert {len(samples) for samples in series.values()} == {1}
    assert {(BARE, MANY), (TWIN, MANY), (SIDECAR, MANY), (BARE, 1), (TWIN, 1), (SIDECAR, 1)} <= series.keys()
    assert {(BARE, OPEN), (SQLITE, OPEN), (SQLITE, MANY), (SQLITE, MORE), (SQLITE_ASLEEP, 1)} <= series.keys()
    assert {(UNOBSERVED, MANY), (OBSERVED, MANY), (POLICED, MANY), (BIND, 1), (BARE_BIND, 1)} <= series.keys()
    assert {(PLAIN_BIND, MANY), (SQLITE_BIND, MANY), (END, MANY), (SQLITE_END, MANY)} <= series.keys()
    assert {(LANE, 1), (LANE, MANY), (LANE, MORE), (BARE, MORE), (TWIN, MORE), (LANE_ASLEEP, 1)} <= series.keys()
    assert {(LANE_BIND, 1), (LANE_BIND, MANY), (LANE_STALLED, MANY), (IDLE_LANES, 1)} <= series.keys()
    assert (series.keys() >= {(TOOL_NODE, 1), (INSTANT_NODE, 1), (SAVED, 1), (AGENTS, 1)}) is installed()
    assert all(((peer, 1) in series) is (why == "not measured") for peer, why in missing(here()).items())
    assert (series.keys() >= {(POSTGRES, MORE), (TAKEN_AWAY, 1)}) is (binaries() is not None)
    assert all(sample.rate > 0 for samples in series.values() for sample in samples)
    assert all(sample.p50 > 0 for (target, _), samples in series.items() if target != TAKEN_AWAY for sample in samples)
    assert all(sum(sample.cpu for sample in samples) > 0 for samples in series.values())
    assert len(as_json(series, plan)["targets"]) == len(series)
    assert {sample.messages for sample in series[BARE, MANY]} == {6}
    assert all(sample.messages < 6 for sample in series[SIDECAR, MANY])
    assert [sample.not_listed is not None for sample in series[SQLITE, MANY]] == [True]
    assert [sample.kept_bytes > 0 for sample in series[IDLE_LANES, 1]] == [True]
    assert all(sample.messages <= 2 for sample in series[LANE, MANY])
    for eight in (FAN_OUT, SQLITE_FAN_OUT, LANE_ASLEEP):
        assert all(sample.messages < MOST_CHILDREN for sample in series[eight, 1 if eight == LANE_ASLEEP else MANY])
    assert all(len(sample.seen) == REPLICAS for sample in series.get((TAKEN_AWAY, 1), ()))


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


def test_a_row_that_cannot_be_measured_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It says which can."""
    with pytest.raises(SystemExit) as ended:
        bench.main(["--rows", "8,16"])

    assert ended.value.code == 2
    assert (
        "only these rows can be measured: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("all_cores_again")
def test_another_revision_has_its_turns_in_the_same_run_and_a_void_run_says_so(
    planted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two rounds of row 0 against a revision whose sub-agents wait 50 ms; the twin of the bare stream waits, too.

    Only what row 0 needs is started. The figures are there, marked void; the exit code is 1.
    """
    few = ["--rounds", "2", "--share", "0.02", "--no-databases", "--rows", "0", "--json", "--twin-delay", "0.05"]

    code = bench.main([*few, "--against", planted])

    out, errors = capsys.readouterr()
    assert code == 1
    assert errors.startswith("void: the same server twice differed by")
    told = json.loads(out)
    assert told["void"] is True
    other = at(SIDECAR, planted)
    expected = {(each, in_flight) for each in (BARE, TWIN, SIDECAR, other) for in_flight in (MANY, 1)}
    assert {(each["target"], each["in_flight"]) for each in told["targets"]} == expected
    assert [(each["target"], each["in_flight"]) for each in told["compared"]] == [(SIDECAR, MANY), (SIDECAR, 1)]
    assert min(each["p50_us"]["min"] for each in told["targets"] if each["target"] == other) / 1e6 > WAITING_SECONDS


@pytest.fixture
def all_cores_again() -> Iterator[None]:
    """The bench keeps itself on one core."""
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Commit this tree with sub-agents that wait, into objects beside the repository's own, and return the commit."""
    folder = tmp_path / "objects"
    folder.mkdir()
    source = (REPOSITORY / RUNNER).read_text(encoding="utf-8")
    changed = source.replace("if self._seconds:", "if True:").replace("(self._seconds)", f"({WAITING_SECONDS})", 1)
    assert changed.count(str(WAITING_SECONDS)) == 1
    objects = git(REPOSITORY, "rev-parse", "--path-format=absolute", "--git-path", "objects")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(folder))
    monkeypatch.setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects)
    around = {"GIT_INDEX_FILE": str(folder / "index")}
    git(REPOSITORY, "read-tree", "HEAD", **around)
    for path, content in ((RUNNER, changed), (LOCK, (REPOSITORY / LOCK).read_text(encoding="utf-8"))):
        blob = git(REPOSITORY, "hash-object", "-w", "--stdin", given=content, **around)
        git(REPOSITORY, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", **around)
    return git(REPOSITORY, "commit-tree", git(REPOSITORY, "write-tree", **around), "-m", "planted", **around)
