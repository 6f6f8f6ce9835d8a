"""Queries git about a checkout without changing it and without index, hooks or personal settings."""

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from hashlib import new as new_hash
from pathlib import Path
from typing import Final

from msgspec import Struct

from sidecar.adapters.definitions_directory.files import ENDINGS
from sidecar.core.definitions.files.registries import BLOCKS_FOLDER, CONFIG_FILE

OPTIONS: Final = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
)
"""Switches off the pager and all programs that the settings of the checkout could start."""
PLAIN_FILES: Final = ("100644", "100755")
SHA256_DIGITS: Final = 64


class Git(Struct, frozen=True):
    """Git in one folder.

    Attributes:
        folder: the working directory of every command.
        seconds: the time limit of all commands together, for messages.
        until: the end of that time, by the monotonic clock; afterwards every command fails.
    """

    folder: Path
    seconds: float
    until: float

    @classmethod
    def within(cls, folder: Path, seconds: float) -> "Git":
        """Return git in `folder`, with a time limit of `seconds` from now for all commands together."""
        return cls(folder, seconds, time.monotonic() + seconds)

    def __call__(self, *arguments: str, given: bytes = b"") -> bytes:
        """Run one command; return its output. Raises `SubprocessError` if it fails or takes too long, or `OSError`."""
        from shutil import which  # noqa: PLC0415  only where commits are looked up

        git = which("git")
        if git is None:
            raise FileNotFoundError("git")
        # One limit for all commands: each one alone may be fast, and their sum not.
        left = self.until - time.monotonic()
        if left <= 0:
            raise subprocess.TimeoutExpired(arguments, self.seconds)
        done = subprocess.run(  # noqa: S603  a fixed command; the folder is the operator's choice
            [git, *OPTIONS, *arguments],
            cwd=self.folder,
            input=given,
            capture_output=True,
            check=True,
            timeout=left,
            # Without optional locks: a read must not disturb another git that works in the checkout. Without a prompt:
            # no user would see it.
            env={"PATH": os.defpath, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
        return done.stdout

    def configuration_at(self, commit: str, under: str = "") -> "CommittedFiles":
        """Return the files of a configuration in a commit.

        Args:
            commit: a full hash.
            under: the configuration's folder inside the repository, with a slash at its end; empty: the top.
        """
        wanted = (f"{under}{CONFIG_FILE}", f"{under}{BLOCKS_FOLDER}")
        listed = self("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", *wanted)
        blobs: dict[str, str] = {}
        others: list[str] = []
        for row in listed.split(b"\0")[:-1]:
            facts, _, name = row.partition(b"\t")
            mode, _, blob = facts.decode(errors="replace").split()
            path = os.fsdecode(name)[len(under) :]
            if mode not in PLAIN_FILES:
                others.append(path)
            elif path.endswith(ENDINGS) and "/." not in path:
                blobs[path] = blob
        return CommittedFiles(blobs, tuple(others))

    def contents(self, blobs: Iterable[str]) -> Mapping[str, bytes]:
        """Return the content of each blob, read by one process. Raises `ValueError` if a blob does not exist."""
        wanted = sorted(dict.fromkeys(blobs))
        if not wanted:
            return {}
        # One process for all files; starting one for each takes seconds for a large configuration.
        output = self("cat-file", "--batch", given="".join(f"{blob}\n" for blob in wanted).encode())
        found: dict[str, bytes] = {}
        at = 0
        for blob in wanted:
            end = output.index(b"\n", at)
            _, kind, *rest = output[at:end].split()
            if kind != b"blob":
                raise ValueError(f"the object {blob} is not there")
            size = int(rest[0])
            found[blob] = output[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return found


class CommittedFiles(Struct, frozen=True):
    """The files of a configuration in a commit.

    Attributes:
        blobs: name of the content of each plain YAML file, by path relative to the configuration root.
        others: paths of links and the like, which are not followed.
    """

    blobs: Mapping[str, str]
    others: tuple[str, ...]


def blob_name(content: bytes, like: str) -> str:
    """Return git's hash of a content, with the hash function of the repository that has the blob `like`."""
    algorithm = "sha256" if len(like) == SHA256_DIGITS else "sha1"
    digest = new_hash(algorithm, b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()
