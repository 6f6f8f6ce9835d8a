"""The same seed is the same run: in another process, with other hashes, and after other runs."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import pytest

from tests.architecture.reading import REPOSITORY
from tests.support.simulation.playing import ALL_SUITES, play

SEEDS: Final = tuple(range(40, 50))
HASH_SEEDS: Final = {suite: ("random", "1")[at % 2] for at, suite in enumerate(ALL_SUITES)}
"""What orders the sets of the other process."""


@cache
def digests_elsewhere(hash_seed: str) -> Mapping[str, Sequence[str]]:
    """Return, by suite, the digests of the seeds' runs in a fresh process, which takes seconds to start."""
    suites = [suite for suite, used in HASH_SEEDS.items() if used == hash_seed]
    command = [sys.executable, "-m", "tests.simulation.replay", "--digest", "--suite", *suites, "--seed"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, *map(str, SEEDS)],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    digests = done.stdout.split()
    return {suite: digests[at * len(SEEDS) : (at + 1) * len(SEEDS)] for at, suite in enumerate(suites)}


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_a_seed_is_the_same_run_in_a_fresh_process(suite: str) -> None:
    """Ten seeds of each suite, with another order of sets there."""
    here = [play(suite, seed).trace.digest() for seed in SEEDS]
    assert digests_elsewhere(HASH_SEEDS[suite])[suite] == here
    assert len(set(here)) == len(SEEDS)


def test_a_readable_replay_shows_steps_and_the_same_digest(capsys: pytest.CaptureFixture[str]) -> None:
    """Reading along changes nothing."""
    quiet = play("turns", 7)
    loud = play("turns", 7, readable=True)
    assert loud.trace.digest() == quiet.trace.digest()
    assert loud.trace.lines is not None
    assert any("durable t" in line for line in loud.trace.lines)
    assert any("frame t" in line for line in loud.trace.lines)
