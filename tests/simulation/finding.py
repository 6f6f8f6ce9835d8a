"""Plants a defect in the sidecar and simulates until its promise is broken.

`python -m tests.simulation.finding` does so for all defects and writes into each patch the seed that found it. With
that seed each run begins, and need not search. A seed that no longer finds the defect costs time, and nothing else.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from tests.architecture.reading import REPOSITORY
from tests.simulation.promises import SCHEDULES
from tests.simulation.running import say
from tests.support.planted import replace

PATCHES: Final = tuple(sorted((Path(__file__).parent / "defects").glob("*.patch")))
SECONDS: Final = 480
"""For all schedules of a suite, on a machine that has other things to do."""
SEARCHED: Final = 1000
"""Schedules that are played to find a seed for a defect; of fewer, not each kind of defect shows."""
CORES: Final = 2
ENVIRONMENT: Final = dict(os.environ)
"""Copied once: pytest changes a variable between two tests, while the threads here go through all of them."""
Findings: TypeAlias = dict[str, Future[tuple[int, str]]]
"""Exit code and output, by the name of the patch."""
NO_LONGER_APPLIES: Final = -1
FOUND: Final = 1


def header(patch: Path, field: str) -> str:
    """Return a line of the patch's header."""
    found = re.search(rf"^{field}: ([\w.]+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{patch.name} has no line `{field}: ...`"
    return found[1]


def seed_of(patch: Path) -> str:
    """Return the seed that the patch's header names, or the first of all."""
    return header(patch, "Seed") if "\nSeed: " in patch.read_text(encoding="utf-8") else "0"


def seeds_of_defects(suite: str) -> Sequence[int]:
    """Return the seeds that find the defects of a suite."""
    return sorted({int(seed_of(patch)) for patch in PATCHES if header(patch, "Suite") == suite})


def search_for(patch: Path, schedules: int | None = None) -> Sequence[str]:
    """Return the module that plays the suite until the defect is found, with its arguments.

    Args:
        patch: the defect.
        schedules: how many are played beside its seed; None: as many as always.
    """
    suite = header(patch, "Suite")
    seeds = ["--begin-with", seed_of(patch), "--base", "0", "--schedules", str(schedules or SCHEDULES[suite])]
    module = ["tests.simulation.run", "--first", "--until", header(patch, "Breaks")]
    return [*module, "--suite", suite, *seeds]


def run_with(patch: Path, module: Sequence[str]) -> tuple[int, str]:
    """Return exit code and output of a Python module, named with its arguments, with the defect planted."""
    with TemporaryDirectory() as place:
        root = Path(place)
        replace(re.findall(r"^--- a/(\S+)", patch.read_text(encoding="utf-8"), re.MULTILINE), root)
        environment = {**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(root.parent)}
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            environment.pop(name, None)
        applied = _run(["git", "apply", "-p1", str(patch)], root, environment)
        if applied.returncode:
            return NO_LONGER_APPLIES, f"{patch.name} no longer applies; write it again:\n{applied.stderr}"
        return run_replaced(place, module)


def run_replaced(folder: str, module: Sequence[str]) -> tuple[int, str]:
    """Return exit code and output of a Python module, with the files in a folder in place of ours."""
    done = _run([sys.executable, "-m", "tests.support.planted", folder, *module], REPOSITORY, ENVIRONMENT)
    return done.returncode, done.stdout + done.stderr


def begin_with_all(patches: Sequence[Path], module_of: Callable[[Path], Sequence[str]]) -> Findings:
    """Begin to run a Python module with each defect planted, as many at a time as there are cores; by name."""
    pool = ThreadPoolExecutor(CORES)
    return {patch.name: pool.submit(run_with, patch, module_of(patch)) for patch in patches}


def seed_in(output: str) -> str:
    """Return the seed that found the defect, which is the last one played."""
    *_, last = re.finditer(r"--seed (\d+)$", output, re.MULTILINE)
    return last[1]


def _write_seed(patch: Path, seed: str) -> None:
    text = patch.read_text(encoding="utf-8")
    named = re.sub(r"^(Breaks: \w+\n)(Seed: \w+\n)?", rf"\g<1>Seed: {seed}\n", text, count=1, flags=re.MULTILINE)
    patch.write_text(named, encoding="utf-8")


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def main() -> int:
    """Look for all of them, and write down where each was found."""
    missed = 0
    findings = begin_with_all(PATCHES, partial(search_for, schedules=SEARCHED))
    for patch in PATCHES:
        code, output = findings[patch.name].result()
        if code != FOUND:
            missed += 1
            say(f"{patch.name}: not found", output)
            continue
        seed = seed_in(output)
        if seed != seed_of(patch):
            say(f"{patch.name}: found with seed {seed}")
        _write_seed(patch, seed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
