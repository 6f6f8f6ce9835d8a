"""Another revision of this repository, in a work tree of its own, to be measured in the same run."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

LOCK: Final = "requirements/test.txt"
"""What the virtual environment is made of, which both revisions share."""
PROJECTS: Final = ("pyproject.toml", "proto/*/pyproject.toml", "clients/*/pyproject.toml", "plugins/*/pyproject.toml")


class RevisionProblem(Exception):
    """A revision cannot be measured; says why and what to do."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What another revision is called, and where its files are."""

    name: str
    tree: Path

    def environment(self) -> dict[str, str]:
        """Return the environment in which Python takes every package of ours from the tree."""
        packages = sorted(project.parent for pattern in PROJECTS for project in self.tree.glob(pattern))
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages))}


@contextmanager
def checked_out(name: str, repository: Path) -> Iterator[Revision]:
    """Check out a revision into a temporary folder, and remove it afterwards.

    Args:
        name: as git knows it, e.g. `main~3`.
        repository: whose revision it is.

    Raises:
        RevisionProblem: there is none of that name, or it needs other libraries.
    """
    found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise RevisionProblem(f"{name} is no revision of this repository")
    commit = found.stdout.decode().strip()
    if _git(repository, "show", f"{commit}:{LOCK}").stdout != (repository / LOCK).read_bytes():
        raise RevisionProblem(
            f"{LOCK} of {name} differs, so that it needs other libraries; measure it in a clone of its own, "
            "or a revision since the lock has changed"
        )
    with TemporaryDirectory(prefix="bench-") as folder:
        tree = Path(folder) / "tree"
        added = _git(repository, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        if added.returncode:
            raise RevisionProblem(f"{name} cannot be checked out: {added.stderr.decode().strip()}")
        try:
            yield Revision(name, tree)
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    command: Sequence[str] = ("git", "-C", str(repository), *arguments)
    return subprocess.run(command, capture_output=True, check=False)
