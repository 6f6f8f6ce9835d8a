"""Reads commits and files of a checkout with the `git` command, without changing the checkout.

It starts no program that the settings of the checkout name, and does not read the user's own git settings.
"""

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
    """Runs git commands in one folder.

    Attributes:
        folder: the working directory of every command.
        seconds: the time limit of all commands together, for messages.
        until: the end of this time by the monotonic clock, in seconds. Afterwards every command fails.
    """

    folder: Path
    seconds: float
    until: float

    @classmethod
    def within(cls, folder: Path, seconds: float) -> "Git":
        """Return git in `folder`, with a time limit of `seconds` from now for all commands together."""
        return cls(folder, seconds, time.monotonic() + seconds)

    def __call__(self, *arguments: str, given: bytes = b"") -> bytes:
        """Run one command, with `given` as its input, and return its output.

        Raises:
            SubprocessError: the command failed or took too long.
            OSError: git is not installed or cannot be started.
        """
        from shutil import which  # noqa: PLC0415  only where commits are looked up

        git = which("git")
        if git is None:
            raise FileNotFoundError("git")
        # One limit for all commands together: many fast commands can take long.
        remaining = self.until - time.monotonic()
        if remaining <= 0:
            raise subprocess.TimeoutExpired(arguments, self.seconds)
        completed = subprocess.run(  # noqa: S603  a fixed command; the folder is the operator's choice
            [git, *OPTIONS, *arguments],
            cwd=self.folder,
            input=given,
            capture_output=True,
            check=True,
            timeout=remaining,
            # No optional locks, so that a read does not disturb another git command in the checkout. No prompt, because
            # no user would see it. `HOME` is absent, so that git finds no personal settings.
            env={"PATH": os.defpath, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        )
        return completed.stdout

    def configuration_at(self, commit: str, under: str = "") -> "CommittedFiles":
        """Return the files of a configuration in a commit.

        Args:
            commit: the full hash of the commit.
            under: the folder of the configuration in the repository, with a trailing slash; empty: the top.
        """
        paths = (f"{under}{CONFIG_FILE}", f"{under}{BLOCKS_FOLDER}")
        listed = self("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths)
        blobs: dict[str, str] = {}
        others: list[str] = []
        for row in listed.split(b"\0")[:-1]:
            description, _, name = row.partition(b"\t")
            mode, _, blob = description.decode(errors="replace").split()
            path = os.fsdecode(name)[len(under) :]
            if mode not in PLAIN_FILES:
                others.append(path)
            # As `files.py` does: hidden files and folders do not belong to a configuration.
            elif path.endswith(ENDINGS) and "/." not in path:
                blobs[path] = blob
        return CommittedFiles(blobs, tuple(others))

    def contents(self, blobs: Iterable[str]) -> Mapping[str, bytes]:
        """Return the content of each blob, by its hash. Raises `ValueError` if a blob does not exist."""
        distinct = sorted(dict.fromkeys(blobs))
        if not distinct:
            return {}
        # One process for all files. Starting one for each file takes seconds for a large configuration.
        output = self("cat-file", "--batch", given="".join(f"{blob}\n" for blob in distinct).encode())
        contents: dict[str, bytes] = {}
        at = 0
        # The output has a line `hash kind size` for each blob, then its content and a line end.
        for blob in distinct:
            end = output.index(b"\n", at)
            _, kind, *rest = output[at:end].split()
            if kind != b"blob":
                raise ValueError(f"the object {blob} is not there")
            size = int(rest[0])
            contents[blob] = output[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
        return contents


class CommittedFiles(Struct, frozen=True):
    """The files of a configuration in a commit.

    Attributes:
        blobs: git's hash of the content of each regular YAML file, by path relative to the configuration root.
        others: paths of links and other entries that are no regular files. They are not followed.
    """

    blobs: Mapping[str, str]
    others: tuple[str, ...]


def blob_name(content: bytes, like: str) -> str:
    """Return git's hash of a file's content.

    Args:
        content: the content.
        like: any hash of the repository. Its length tells whether the repository uses SHA-1 or SHA-256.
    """
    algorithm = "sha256" if len(like) == SHA256_DIGITS else "sha1"
    digest = new_hash(algorithm, b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()
