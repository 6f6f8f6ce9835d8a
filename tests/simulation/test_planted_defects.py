"""The simulation finds what it is for: defects, kept as patches, are planted one by one, and each breaks its promise.

A patch begins with a sentence, the suite that finds it, the promise that it breaks, and a seed that finds it
(`python -m tests.simulation.finding` writes the seeds again). Where a patch no longer applies because the code has
moved on, plant the same defect anew and write the patch again (`git diff -U2`).
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.simulation.finding import (
    FOUND,
    NO_LONGER_APPLIES,
    PATCHES,
    Findings,
    begin_with_all,
    header,
    run_replaced,
    search_for,
)
from tests.simulation.promises import PROMISES
from tests.support.planted import replace


@cache
def findings() -> Findings:
    """Begin with all of them."""
    return begin_with_all(PATCHES, search_for)


@pytest.mark.system
@pytest.mark.parametrize("patch", PATCHES, ids=[patch.stem for patch in PATCHES])
def test_the_defect_is_found(patch: Path) -> None:
    """The promise that its header names is broken in a schedule that is always played: that of the seed there."""
    code, output = findings()[patch.name].result()
    assert code != NO_LONGER_APPLIES, output
    assert code == FOUND, f"not found:\n{output}"
    assert f"BROKEN {header(patch, 'Breaks')}:" in output, output


@pytest.mark.system
def test_what_is_planted_unchanged_breaks_nothing() -> None:
    """No promise is broken because half of the modules are imported anew."""
    with TemporaryDirectory() as place:
        replace(["sidecar/core/errors.py"], Path(place))
        plays = ["tests.simulation.run", "--first", "--suite", "all", "--base", "0", "--schedules", "5"]
        code, output = run_replaced(place, plays)
    assert code == 0, output


def test_there_are_at_least_fifteen_and_each_names_a_promise() -> None:
    """And no two are the same."""
    assert len(PATCHES) >= 15
    assert {header(patch, "Breaks") for patch in PATCHES} <= set(PROMISES)
    assert sum(header(patch, "Suite") == "rollout" for patch in PATCHES) >= 10
    assert all(header(patch, "Seed") for patch in PATCHES)
    bodies = {patch.read_text(encoding="utf-8").partition("--- ")[2] for patch in PATCHES}
    assert len(bodies) == len(PATCHES)
