"""The simulation finds what it is for: defects, kept as patches, are planted one by one, and each breaks its promise.

A patch begins with a sentence, the suite that finds it, and the promise that it breaks. Where a patch no longer applies
because the code has moved on, plant the same defect anew and write the patch again (`git diff -U2`).
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.architecture.reading import REPOSITORY
from tests.simulation.promises import PROMISES

PATCHES: Final = tuple(sorted((Path(__file__).parent / "defects").glob("*.patch")))
MOST_SCHEDULES: Final = 1500
SECONDS: Final = 90
CORES: Final = 2


def header(patch: Path, field: str) -> str:
    """Return a line of the patch's header."""
    found = re.search(rf"^{field}: (\w+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{patch.name} has no line `{field}: ...`"
    return found[1]


def found_with(patch: Path) -> tuple[int, str]:
    """Return exit code and output of the suite with the defect planted in a copy of the sidecar."""
    with TemporaryDirectory() as place:
        root = Path(place)
        shutil.copytree(REPOSITORY / "sidecar", root / "sidecar")
        (root / "tests").symlink_to(REPOSITORY / "tests")
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            environment.pop(name, None)
        applied = _run(["git", "apply", "-p1", str(patch)], root, environment)
        if applied.returncode:
            return -1, f"{patch.name} no longer applies; write it again:\n{applied.stderr}"
        environment["PYTHONPATH"] = os.pathsep.join([str(root), *sys.path])
        suite = ["--suite", header(patch, "Suite"), "--base", "0", "--schedules", str(MOST_SCHEDULES)]
        command = [sys.executable, "-m", "tests.simulation.run", "--first", "--until", header(patch, "Breaks"), *suite]
        done = _run(command, root, environment)
        return done.returncode, done.stdout + done.stderr


def _run(command: list[str], root: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@cache
def findings() -> dict[str, Future[tuple[int, str]]]:
    """Begin with all of them, as many at a time as there are cores."""
    pool = ThreadPoolExecutor(CORES)
    return {patch.name: pool.submit(found_with, patch) for patch in PATCHES}


@pytest.mark.system
@pytest.mark.seconds(240)
@pytest.mark.parametrize("patch", PATCHES, ids=[patch.stem for patch in PATCHES])
def test_the_defect_is_found(patch: Path) -> None:
    """The promise that its header names is broken in some schedule."""
    code, output = findings()[patch.name].result()
    assert code != -1, output
    assert code == 1, f"not found:\n{output}"
    assert f"BROKEN {header(patch, 'Breaks')}:" in output, output


def test_there_are_at_least_fifteen_and_each_names_a_promise() -> None:
    """And no two are the same."""
    assert len(PATCHES) >= 15
    assert {header(patch, "Breaks") for patch in PATCHES} <= set(PROMISES)
    assert sum(header(patch, "Suite") == "rollout" for patch in PATCHES) >= 10
    bodies = {patch.read_text(encoding="utf-8").partition("--- ")[2] for patch in PATCHES}
    assert len(bodies) == len(PATCHES)
