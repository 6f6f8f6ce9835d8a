"""Finds the commit in which a definition's digest first appeared, if the configuration is a git checkout.

The search walks back from HEAD over the commits that touched the configuration and loads each version: a digest's
commit is the oldest of the unbroken run that ends at HEAD. A digest has no commit if its change is not committed, the
root is outside git, git is missing, or the search takes too long. The digest then takes the place of the commit.
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
"""Commits of the configuration that a search looks at; a digest that is older has no commit."""
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
        self._known: dict[str, frozenset[Digest]] = {}
        self._blobs: dict[tuple[str, str], Parsed] = {}

    def commits_of(self, digests: frozenset[Digest]) -> Mapping[Digest, Commit]:
        """Return the commit of each digest, if one was found. Blocks for at most `seconds`."""
        git = Git.within(self._root, self._seconds)
        try:
            return self._walk(git, digests)
        # Commits are a convenience of the audit: without git, definitions load as before.
        except (OSError, ValueError, subprocess.SubprocessError):
            return {}
        finally:
            # Parsed files are needed only within one search; the digests of each commit are kept.
            self._blobs.clear()

    def _walk(self, git: Git, digests: frozenset[Digest]) -> dict[Digest, Commit]:
        under = git("rev-parse", "--show-prefix").decode(errors="surrogateescape").rstrip("\n")
        listed = git("log", "--format=%H", "--first-parent", f"-n{COMMITS_AT_MOST + 1}", "HEAD", "--", ".")
        commits = listed.decode(errors="replace").split()
        running = digests
        found: dict[Digest, Commit] = {}
        for commit in commits[:COMMITS_AT_MOST]:
            # A digest that an older commit lacks has its commit: the one before it in this walk.
            running &= self._digests_at(git, commit, under)
            if not running:
                return found
            found |= {digest: Commit(commit) for digest in sorted(running)}
        # A digest that runs on beyond the limit is older than all commits that were looked at: its commit is unknown.
        if len(commits) > COMMITS_AT_MOST:
            return {digest: commit for digest, commit in found.items() if digest not in running}
        return found

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
