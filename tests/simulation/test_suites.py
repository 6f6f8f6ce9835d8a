"""Some schedules of each suite, the same each time, so that a change is judged by what it does.

Among them are those that have found the planted defects. Ten thousand fresh ones are tried by `make torture`, or as
many as here with `SIM_SEED=<where they begin>`: what they find is a defect that was there before.
"""

import os
from collections.abc import Sequence
from functools import cache
from typing import Final

import pytest

from tests.simulation.finding import seeds_of_defects
from tests.simulation.promises import PROMISES, PROVES, RARE, SCHEDULES, missing
from tests.simulation.run import fresh_base
from tests.simulation.running import Report, run_suites, say
from tests.support.requirement import requirement
from tests.support.simulation.playing import ALL_SUITES

AT_LENGTH: Final = int(os.environ.get("SIDECAR_SCHEDULES") or 0)
"""So many of each suite, all of them fresh: `make torture`."""
CORES: Final = 2
FEW: Final = 20


@cache
def reports() -> tuple[int, dict[str, Report]]:
    """Return where the seeds began, and what came of each suite; run once for all tests here."""
    base = fresh_base() if AT_LENGTH or "SIM_SEED" in os.environ else 0
    return base, run_suites([(suite, seeds_of(suite, base)) for suite in ALL_SUITES], CORES)


@cache
def reports_of_few() -> dict[str, Report]:
    """Return what came of a few schedules of each suite; all in one process, which takes a second to start."""
    return run_suites([(suite, range(FEW)) for suite in ALL_SUITES], 1)


def seeds_of(suite: str, base: int) -> Sequence[int]:
    """Return what is played: so many from where the seeds begin, and those that are always played."""
    first = range(base, base + (AT_LENGTH or SCHEDULES[suite]))
    return first if base else sorted({*first, *seeds_of_defects(suite), *RARE.get(suite, ())})


def proving(promise: str) -> object:
    """Return a test's parameter with the rows that the promise proves."""
    rows = PROVES.get(promise, ())
    return pytest.param(promise, marks=requirement(*rows) if rows else ())


@pytest.mark.system
@pytest.mark.parametrize("promise", [proving(promise) for promise in PROMISES])
def test_the_promise_holds_in_every_schedule(promise: str) -> None:
    """In none of the suites' schedules it is broken; a failure says how to replay it."""
    broken = [each for report in reports()[1].values() for each in report.broken if each.promise == promise]
    assert broken == [], "\n".join(str(each) for each in broken[:5])


@pytest.mark.system
@pytest.mark.parametrize("suite", ALL_SUITES)
def test_every_kind_of_fault_occurs(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not occur is not survived either; the table is printed."""
    base, by_suite = reports()
    with capsys.disabled():
        say(f"\n== simulation suite {suite}: seeds from {base}; {by_suite[suite].table()}")
    assert by_suite[suite].schedules == len(seeds_of(suite, base))
    assert missing(suite, by_suite[suite].counted) == {}


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_a_few_schedules_keep_every_promise(suite: str) -> None:
    """The short form, for everyday."""
    report = reports_of_few()[suite]
    assert report.schedules == FEW
    assert report.broken == [], "\n".join(str(each) for each in report.broken[:5])
