"""Finds the base of a change for `sidecar validate-refs`: the merge base of HEAD and the base branch in git."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.git_plumbing import CommittedFiles, Git, blob_name
from sidecar.core.definitions.files.problems import printable, quoted
from sidecar.core.definitions.files.registries import CONFIG_FILE
from sidecar.core.definitions.review.overrides import TRAILER
from sidecar.core.definitions.review.references import ComparisonRefused

SECONDS_AT_MOST: Final = 60.0
"""The time limit of all git commands together. A large repository on a slow disk needs some seconds."""
DEEPEN: Final = "fetch more of it (`git fetch --unshallow`; in GitHub's checkout action `fetch-depth: 0`)"


@dataclass(frozen=True, slots=True)
class GitBase:
    """The base of a change. File contents are read on demand.

    Attributes:
        git: runs git commands in the configuration folder.
        commit: the hash of the merge base.
        files: the files of the configuration in `commit`.
        head_under: the folder of the configuration at HEAD, relative to the top of the repository, with a trailing
            slash; empty: the top.
        told: messages to the user about the base, e.g. that the configuration was moved.
    """

    git: Git
    commit: str
    files: CommittedFiles
    head_under: str
    told: tuple[str, ...]

    def changed_since(self, head: Mapping[str, bytes]) -> Sequence[str]:
        """Return the paths of the base that `head` lacks, or whose content differs in `head`."""
        # Compared by git's hashes, so that no content has to be read from git.
        blobs = self.files.blobs.items()
        return [path for path, blob in blobs if path not in head or blob_name(head[path], blob) != blob]

    def contents(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Return the contents of these files in the base."""
        by_blob = self.git.contents(self.files.blobs[path] for path in paths)
        return {path: by_blob[self.files.blobs[path]] for path in paths}

    def trailers(self) -> tuple[str, ...]:
        """Return the override trailers of the commits from the base to HEAD."""
        format_option = f"--format=%(trailers:key={TRAILER},valueonly,unfold)"
        output = self.git("log", "--no-show-signature", format_option, f"{self.commit}..HEAD").decode(errors="replace")
        return tuple(line.strip() for line in output.splitlines() if line.strip())


def open_base(root: Path, ref: str) -> GitBase:
    """Find the base of the change that is checked out at `root`.

    Args:
        root: the folder of the configuration in the checkout.
        ref: a name of the base branch or of another commit.

    Raises:
        ComparisonRefused: the local clone does not have the base; the message says how to fetch it.
        OSError, SubprocessError: git failed.
    """
    git = Git.within(root, SECONDS_AT_MOST)
    # In a missing folder, the start of git would fail with the same exception as without an installed git.
    if not root.is_dir():
        raise ComparisonRefused(f"{root} is not a folder; give the one that holds {CONFIG_FILE}")
    # One command answers both questions, because starting git takes longer than the answers.
    output = git("rev-parse", "--is-shallow-repository", "--show-prefix").decode(errors="surrogateescape")
    is_shallow, _, under = output.removesuffix("\n").partition("\n")
    shallow = is_shallow == "true"
    tip = _commit_of(git, ref, shallow)
    commit = _merge_base(git, ref, tip, shallow)
    files = git.configuration_at(commit, under)
    told: tuple[str, ...] = () if commit == tip else (f"compared with {commit[:12]}, where HEAD and {ref} part",)
    # Without a configuration at the same place, the base may have it in another folder.
    if CONFIG_FILE not in files.blobs and CONFIG_FILE not in files.others:
        moved_from = _moved_from(git, commit)
        if moved_from is not None and moved_from != under:
            files = git.configuration_at(commit, moved_from)
            told = (*told, f"compared with {moved_from or './'}, from where the configuration was moved")
    if CONFIG_FILE in files.others:
        raise ComparisonRefused(f"{CONFIG_FILE} is a link in the base; give the base as a folder: --base-dir")
    return GitBase(git, commit, files, under, told)


def _commit_of(git: Git, ref: str, shallow: bool) -> str:
    # A name that begins with a dash would be an option of git.
    if not ref or ref.startswith("-"):
        raise ComparisonRefused(f"{quoted(ref)} is not the name of a commit")
    try:
        return git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").decode(errors="replace").strip()
    except subprocess.CalledProcessError:
        why = f"; the history here is shallow: {DEEPEN}" if shallow else "; fetch it first, or check its name"
        raise ComparisonRefused(f"{quoted(ref)} is not known here{why}") from None


def _merge_base(git: Git, ref: str, tip: str, shallow: bool) -> str:
    try:
        return git("merge-base", tip, "HEAD").decode(errors="replace").split()[0]
    except (subprocess.CalledProcessError, IndexError):
        what = f"where HEAD and {quoted(ref)} part is not in the history here"
        if shallow:
            raise ComparisonRefused(f"{what}, which is shallow: {DEEPEN}") from None
        raise ComparisonRefused(f"{what}: they have nothing in common; check the name of the base") from None


def _moved_from(git: Git, commit: str) -> str | None:
    """Return the folder that has a configuration in `commit` but not in the checkout; None if there is no such folder.

    Without this search every file of a moved configuration would count as new, and no change would be found.

    Raises:
        ComparisonRefused: several folders qualify.
    """
    top = Path(git("rev-parse", "--show-toplevel").decode(errors="surrogateescape").rstrip("\n"))
    listed = git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).decode(errors="surrogateescape")
    named = (path for path in listed.split("\0") if path == CONFIG_FILE or path.endswith(f"/{CONFIG_FILE}"))
    gone = [path[: -len(CONFIG_FILE)] for path in named if not (top / path).exists()]
    if len(gone) > 1:
        places = ", ".join(printable(path or "./") for path in gone)
        raise ComparisonRefused(f"the base held configurations at {places}; name the right one with --base-dir")
    return gone[0] if gone else None
