"""Runs many schedules and gathers what was broken and which faults occurred."""

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.support.simulation.playing import play

BETWEEN_COLLECTIONS = 100
PIECE = 50
"""Schedules that a process takes at once: so few that the last pieces end at about the same time."""


def say(*lines: str) -> None:
    """Tell whoever started us."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


@dataclass(frozen=True, slots=True)
class Broken:
    """One broken promise."""

    promise: str
    suite: str
    seed: int
    problem: str

    def __str__(self) -> str:
        """Say what, and how to see it again."""
        replay = f"python -m tests.simulation.replay --suite {self.suite} --seed {self.seed}"
        return f"{self.promise}: {self.problem}\n    {replay}"


@dataclass(slots=True)
class Report:
    """What came of many schedules."""

    schedules: int = 0
    steps: int = 0
    counted: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Add another report."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.counted.update(other.counted)
        self.broken += other.broken

    def table(self) -> str:
        """Return how often each fault occurred."""
        rows = [f"  {count:8d}  {what}" for what, count in sorted(self.counted.items())]
        return "\n".join([f"{self.schedules} schedules, {self.steps} steps", *rows])


def run_seeds(suite: str, seeds: Iterable[int], *, until: str | None = None) -> Report:
    """Run the schedules of some seeds; perhaps only until a promise is broken: a certain one, or any (empty)."""
    report = Report()
    gc.collect()
    gc.freeze()
    for seed in seeds:
        played = play(suite, seed)
        report.schedules += 1
        report.steps += played.steps
        report.counted.update(played.counted)
        report.broken += [Broken(promise, suite, seed, problem) for promise, problem in played.broken]
        if until is not None and any(until in ("", each.promise) for each in report.broken):
            break
        if report.schedules % BETWEEN_COLLECTIONS == 0:
            gc.collect()
    gc.unfreeze()
    return report


def run_suites(wanted: Sequence[tuple[str, Sequence[int]]], jobs: int) -> dict[str, Report]:
    """Run the seeds of several suites on several cores, and return a report for each suite."""
    pieces = [(suite, seeds[at : at + PIECE]) for suite, seeds in wanted for at in range(0, len(seeds), PIECE)]
    reports: dict[str, Report] = {}
    # Not forked: what gRPC leaves in a process that has served does not survive that, and its finalizers never end.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for (suite, _), report in zip(pieces, pool.map(_run_piece, pieces), strict=True):
            reports.setdefault(suite, Report()).add(report)
    return reports


def _run_piece(piece: tuple[str, Sequence[int]]) -> Report:
    return run_seeds(*piece)
