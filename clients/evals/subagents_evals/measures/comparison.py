"""Compares two runs case by case: which cases are better or worse, and whether the difference may be chance."""

import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from subagents_evals.inputs.configuration import FILE
from subagents_evals.measures.results import Run
from subagents_evals.measures.statistics import mcnemar
from subagents_evals.measures.trial import Trial, by_case

SURE: Final = 0.05
"""p-value below which a difference counts as significant."""
GIT_SECONDS: Final = 60.0
WORKING_TREE: Final = ""


class UnusableRevision(ValueError):
    """A revision cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The outcomes of one group of cases in two runs.

    Attributes:
        name: `all` or a slot.
        both, neither: cases that were right in both, in neither.
        worse, better: ids of cases that only the first, only the second run got right.
        p: exact two-sided p-value of McNemar's test.
    """

    name: str
    both: int
    neither: int
    worse: Sequence[str]
    better: Sequence[str]
    p: float

    @property
    def cases(self) -> int:
        """Number of compared cases."""
        return self.both + self.neither + len(self.worse) + len(self.better)

    @property
    def significantly_worse(self) -> bool:
        """Whether the second run is worse, and the difference is significant."""
        return len(self.worse) > len(self.better) and self.p < SURE


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two runs: groups of cases (all cases, then each sub-agent), and the definitions that differ."""

    before: Run
    after: Run
    groups: Sequence[Paired]
    changed: Sequence[str]

    @property
    def worse(self) -> Sequence[Paired]:
        """The groups that are significantly worse in the second run."""
        return [one for one in self.groups if one.significantly_worse]


def compared(before: Run, after: Run) -> Comparison:
    """Compare two runs, case by case; a repeated case counts as right if more than half of its trials are."""
    first, second = by_case(before.trials), by_case(after.trials)
    shared = [case_id for case_id in first if case_id in second]
    slots = [one.slot for one in after.definitions]
    groups = [_paired("all", shared, first, second)]
    for slot in slots:
        about = [one for one in shared if slot in {*first[one][0].about, *second[one][0].about}]
        groups.append(_paired(slot, about, first, second))
    digests = {one.slot: one.digest for one in before.definitions}
    changed = [one.slot for one in after.definitions if digests.get(one.slot) != one.digest]
    return Comparison(before, after, groups, changed)


def revisions_of(span: str) -> tuple[str, str]:
    """Return the two revisions in a text such as `main..HEAD`. An empty second revision means the working tree.

    Raises:
        UnusableRevision: no `<revision>..<revision>`.
    """
    before, dots, after = span.partition("..")
    if not dots or not before or before.startswith("-") or after.startswith((".", "-")):
        raise UnusableRevision(f"{span!r}: write <revision>..<revision>, e.g. main..HEAD; `main..` is the working tree")
    return before, after


def checked_out(folder: Path, revision: str, target: Path) -> Path:
    """Return a folder with the configuration as it is in a revision; the folder itself for the working tree.

    Raises:
        UnusableRevision: git does not know the revision, or the folder is not in it.
    """
    if revision == WORKING_TREE:
        return folder
    root = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    place = folder.resolve().relative_to(root)
    archive = _git(root, "archive", "--format=tar", revision, "--", str(place))
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(target, filter="data")
    if not (target / place / FILE).is_file():
        raise UnusableRevision(f"{revision}: {place / FILE} is not in it")
    return target / place


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)  # noqa: S603  arguments only
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnusableRevision(f"git cannot be run: {type(error).__name__}") from None
    if done.returncode:
        raise UnusableRevision(done.stderr.decode("utf-8", "replace").strip())
    return done.stdout


def _paired(
    name: str, ids: Sequence[str], first: Mapping[str, Sequence[Trial]], second: Mapping[str, Sequence[Trial]]
) -> Paired:
    pairs = {one: (_right(first[one]), _right(second[one])) for one in ids}
    worse = [one for one, pair in pairs.items() if pair == (True, False)]
    better = [one for one, pair in pairs.items() if pair == (False, True)]
    return Paired(
        name,
        both=sum(pair == (True, True) for pair in pairs.values()),
        neither=sum(pair == (False, False) for pair in pairs.values()),
        worse=worse,
        better=better,
        p=mcnemar(len(worse), len(better)),
    )


def _right(trials: Sequence[Trial]) -> bool:
    return sum(one.exact for one in trials) * 2 > len(trials)
