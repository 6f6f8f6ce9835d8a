"""The tests of load and fairness find what they are for: defects, kept as patches, are planted one by one.

A patch begins with a sentence, and names the folder, the module and the test that it breaks. Where one no longer
applies, plant the same defect anew and write the patch again (`git diff -U2`).
"""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from tests.rpc.session_defects.run_one import BROKEN
from tests.simulation.finding import CORES, NO_LONGER_APPLIES, header, run_with

PATCHES = tuple(sorted(Path(__file__).parent.glob("*.patch")))


@cache
def findings() -> dict[str, Future[tuple[int, str]]]:
    """Begin with all of them, as many at a time as there are cores."""
    pool = ThreadPoolExecutor(CORES)
    named = {patch: [header(patch, field) for field in ("Folder", "Module", "Breaks")] for patch in PATCHES}
    one = "tests.rpc.load_defects.run_one"
    return {patch.name: pool.submit(run_with, patch, [one, *parts]) for patch, parts in named.items()}


@pytest.mark.system
@pytest.mark.seconds(120)
@pytest.mark.parametrize("patch", PATCHES, ids=[patch.stem for patch in PATCHES])
def test_the_defect_is_found(patch: Path) -> None:
    """By the test that its header names."""
    code, output = findings()[patch.name].result()
    assert code != NO_LONGER_APPLIES, output
    assert code == BROKEN, f"not found:\n{output}"


def test_the_defects_are_there() -> None:
    """An empty folder would find nothing, and say so to nobody."""
    assert len(PATCHES) >= 10
