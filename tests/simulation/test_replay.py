"""The same seed is the same run: in another process, with other hashes, and after other runs."""

import os
import subprocess
import sys

import pytest

from tests.architecture.reading import REPOSITORY
from tests.support.simulation.playing import ALL_SUITES, play

SEEDS = tuple(range(40, 60))


def digests_elsewhere(suite: str, hash_seed: str) -> list[str]:
    """Return the digests of the seeds' runs in a fresh process."""
    command = [sys.executable, "-m", "tests.simulation.replay", "--digest", "--suite", suite, "--seed"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, *map(str, SEEDS)],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("suite", "hash_seed"), [(suite, "random" if at == 2 else str(at)) for at, suite in enumerate(ALL_SUITES)]
)
def test_a_seed_is_the_same_run_in_a_fresh_process(suite: str, hash_seed: str) -> None:
    """Twenty seeds of each suite, with another order of sets there."""
    here = [play(suite, seed).trace.digest() for seed in SEEDS]
    assert digests_elsewhere(suite, hash_seed) == here
    assert len(set(here)) == len(SEEDS)


def test_a_readable_replay_shows_steps_and_the_same_digest(capsys: pytest.CaptureFixture[str]) -> None:
    """Reading along changes nothing."""
    quiet = play("turns", 7)
    loud = play("turns", 7, readable=True)
    assert loud.trace.digest() == quiet.trace.digest()
    assert loud.trace.lines is not None
    assert any("durable t" in line for line in loud.trace.lines)
    assert any("frame t" in line for line in loud.trace.lines)
