"""Tests of load, labels, data services, groups of hosts, traces and live pages find defects, planted from patches.

A patch begins with a sentence, and names the folder, the module and the test that it breaks. Where one no longer
applies, plant the same defect anew and write the patch again (`git diff -U2`).
"""

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.rpc.session_defects.run_one import BROKEN
from tests.simulation.finding import NO_LONGER_APPLIES, Findings, begin_with_all, header

PATCHES: Final = tuple(sorted(Path(__file__).parent.glob("*.patch")))
RUN_ONE: Final = "tests.rpc.session_defects.run_one"
SECONDS: Final = "60"
"""The tests take at most three seconds; what a defect keeps waiting is given up then."""


@cache
def findings() -> Findings:
    """Begin with all of them."""
    return begin_with_all(
        PATCHES, lambda patch: [RUN_ONE, SECONDS, *(header(patch, field) for field in ("Folder", "Module", "Breaks"))]
    )


@pytest.mark.system
@pytest.mark.seconds(120)
@pytest.mark.parametrize("patch", PATCHES, ids=[patch.stem for patch in PATCHES])
def test_the_defect_is_found(patch: Path) -> None:
    """By the test that its header names."""
    code, output = findings()[patch.name].result()
    assert code != NO_LONGER_APPLIES, output
    assert code == BROKEN, f"not found:\n{output}"


def test_the_defects_are_there() -> None:
    """An empty folder would find nothing, and no test would fail."""
    assert len(PATCHES) >= 10
