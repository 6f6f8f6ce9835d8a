"""Finds the commit in which a definition's digest first appeared, if the configuration is a git checkout.

Walks back from HEAD over the commits that touched the configuration and loads each state: a digest's commit is the
oldest of the unbroken run that ends at HEAD. A change that is not committed, a root outside git, no git at all, or a
walk that does not end in time leave a digest without one; it is then its own commit, as in a plain directory.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.files import ENDINGS
from sidecar.adapters.definitions_directory.loading import load_parsed
from sidecar.adapters.definitions_directory.yaml_documents import Parsed, parse
from sidecar.core.definitions.reading import BLOCKS_FOLDER, CONFIG_FILE
from sidecar.core.identifiers import Commit, Digest

COMMITS_AT_MOST: Final = 500
SECONDS_AT_MOST: Final = 10.0
PLAIN_FILES: Final = ("100644", "100755")
OPTIONS: Final = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
"""No pager, and no program that the checkout's own settings might name."""


class GitHistory:
    """The history of one configuration root.

    Args:
        root: the folder that holds `agent_config.yaml`.
        seconds: longest a walk may take.
    """

    def __init__(self, root: Path, seconds: float = SECONDS_AT_MOST) -> None:
        """Nothing is read before it is asked for."""
        self._root = root
        self._seconds = seconds
        self._known: dict[str, frozenset[Digest]] = {}
        self._blobs: dict[tuple[str, str], Parsed] = {}

    def commits_of(self, digests: frozenset[Digest]) -> Mapping[Digest, Commit]:
        """Return the commit of each digest for which one could be found. Blocks for `seconds` at most."""
        until = time.monotonic() + self._seconds
        try:
            return self._walk(digests, until)
        except (OSError, subprocess.SubprocessError):
            return {}
        finally:
            self._blobs.clear()

    def _walk(self, digests: frozenset[Digest], until: float) -> dict[Digest, Commit]:
        listed = self._git(until, "log", "--format=%H", "--first-parent", f"-n{COMMITS_AT_MOST + 1}", "HEAD", "--", ".")
        commits = listed.decode().split()
        running = digests
        found: dict[Digest, Commit] = {}
        for commit in commits[:COMMITS_AT_MOST]:
            running &= self._digests_at(commit, until)
            if not running:
                return found
            found |= {digest: Commit(commit) for digest in sorted(running)}
        if len(commits) > COMMITS_AT_MOST:
            return {digest: commit for digest, commit in found.items() if digest not in running}
        return found

    def _digests_at(self, commit: str, until: float) -> frozenset[Digest]:
        if commit not in self._known:
            loaded = load_parsed(self._files_at(commit, until), [], [])
            cards = loaded.catalogue.cards.values() if loaded.catalogue is not None else ()
            self._known[commit] = frozenset(card.digest for card in cards)
        return self._known[commit]

    def _files_at(self, commit: str, until: float) -> dict[str, Parsed]:
        listed = self._git(until, "ls-tree", "-r", "-z", commit, "--", CONFIG_FILE, BLOCKS_FOLDER)
        blobs: dict[str, str] = {}
        for row in listed.split(b"\0")[:-1]:
            facts, _, name = row.partition(b"\t")
            mode, _, blob = facts.decode().split()
            path = os.fsdecode(name)
            if mode in PLAIN_FILES and path.endswith(ENDINGS) and "/." not in path:
                blobs[path] = blob
        self._fetch(set(blobs.items()) - self._blobs.keys(), until)
        return {path: self._blobs[path, blob] for path, blob in blobs.items()}

    def _fetch(self, wanted: set[tuple[str, str]], until: float) -> None:
        """Read and parse blobs that were not seen before, all in one process."""
        if not wanted:
            return
        rows = sorted(wanted)
        output = self._git(until, "cat-file", "--batch", given="".join(f"{blob}\n" for _, blob in rows).encode())
        at = 0
        for path, blob in rows:
            end = output.index(b"\n", at)
            size = int(output[at:end].split()[2])
            self._blobs[path, blob] = parse(output[end + 1 : end + 1 + size], path)
            at = end + 1 + size + 1

    def _git(self, until: float, *arguments: str, given: bytes = b"") -> bytes:
        """Run git in the root; `SubprocessError` if it fails or is too slow."""
        git = shutil.which("git")
        if git is None:
            raise FileNotFoundError("git")
        left = until - time.monotonic()
        if left <= 0:
            raise subprocess.TimeoutExpired(arguments, self._seconds)
        done = subprocess.run(  # noqa: S603  a fixed command; the root is the operator's setting
            [git, *OPTIONS, *arguments],
            cwd=self._root,
            input=given,
            capture_output=True,
            check=True,
            timeout=left,
            env={"PATH": os.defpath, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
        return done.stdout
