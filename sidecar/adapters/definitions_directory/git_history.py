"""Finds the commit in which each definition of the present configuration first appeared, for the audit of rollouts.

The search goes back from HEAD through the commits that changed the configuration, and loads the definitions of each.
The commit of a definition's digest is the oldest one such that all commits from there to HEAD have the digest.

A digest has no commit if its change is not committed, the configuration is not in git, git is missing, or the search
takes too long. The digest is then used instead of the commit.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.git_plumbing import Git
from sidecar.adapters.definitions_directory.loading import load_parsed
from sidecar.adapters.definitions_directory.yaml_documents import Parsed, parse
from sidecar.core.identifiers import Commit, Digest

COMMITS_AT_MOST: Final = 500
"""Maximum number of commits that a search loads. A digest that first appeared before them has no commit."""
SECONDS_AT_MOST: Final = 10.0
"""The time limit of a search. It runs in a thread at the load of each version, so no turn waits for it."""


class GitHistory:
    """The history of one configuration root.

    Args:
        root: the folder with `agent_config.yaml`.
        seconds: the time limit of a search.
    """

    def __init__(self, root: Path, seconds: float = SECONDS_AT_MOST) -> None:
        """Create without reading git; the first search reads it."""
        self._root = root
        self._seconds = seconds
        # The digests of each commit stay in memory: a commit never changes, so a later search need not load it again.
        self._known: dict[str, frozenset[Digest]] = {}
        # Parsed files by path and blob. Most files are the same in many commits.
        self._blobs: dict[tuple[str, str], Parsed] = {}

    def commits_of(self, digests: frozenset[Digest]) -> Mapping[Digest, Commit]:
        """Return the commit of each digest, if one was found. Blocks for at most `seconds`."""
        git = Git.within(self._root, self._seconds)
        try:
            return self._walk(git, digests)
        # Only the audit uses the commits. Definitions must also load without git.
        except (OSError, ValueError, subprocess.SubprocessError):
            return {}
        finally:
            # Parsed files are needed only within one search.
            self._blobs.clear()

    def _walk(self, git: Git, digests: frozenset[Digest]) -> dict[Digest, Commit]:
        under = git("rev-parse", "--show-prefix").decode(errors="surrogateescape").rstrip("\n")
        # Only first parents: commits of a merged branch were not in use here before the merge. One commit more than the
        # limit shows that there are older ones.
        listed = git("log", "--format=%H", "--first-parent", f"-n{COMMITS_AT_MOST + 1}", "HEAD", "--", ".")
        commits = listed.decode(errors="replace").split()
        # The digests that HEAD and all later commits of the loop have.
        in_all = digests
        commit_of: dict[Digest, Commit] = {}
        for commit in commits[:COMMITS_AT_MOST]:
            # For a digest that `commit` lacks, `commit_of` keeps the previous commit of the loop.
            in_all &= self._digests_at(git, commit, under)
            if not in_all:
                return commit_of
            commit_of |= {digest: Commit(commit) for digest in sorted(in_all)}
        # A digest that even the last of these commits has may be older, so its commit is unknown.
        if len(commits) > COMMITS_AT_MOST:
            return {digest: commit for digest, commit in commit_of.items() if digest not in in_all}
        return commit_of

    def _digests_at(self, git: Git, commit: str, under: str) -> frozenset[Digest]:
        if commit not in self._known:
            loaded = load_parsed(self._files_at(git, commit, under), [], [])
            cards = loaded.catalogue.cards.values() if loaded.catalogue is not None else ()
            self._known[commit] = frozenset(card.digest for card in cards)
        return self._known[commit]

    def _files_at(self, git: Git, commit: str, under: str) -> dict[str, Parsed]:
        blobs = git.configuration_at(commit, under).blobs
        unseen = blobs.items() - self._blobs.keys()
        contents = git.contents(blob for _, blob in unseen)
        for path, blob in sorted(unseen):
            self._blobs[path, blob] = parse(contents[blob], path)
        return {path: self._blobs[path, blob] for path, blob in blobs.items()}
