"""Writes the patch of a decommission with git, in a temporary repository, so that the checkout stays unchanged."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidecar.core.rollout.checkout_inspection import CheckoutRefused

SECONDS: Final = 20
"""The time limit of one git command."""
# No git setting of the machine may change the patch or start a program.
OPTIONS: Final = ("-c", "core.autocrlf=false", "-c", "core.quotePath=true", "-c", "core.hooksPath=/dev/null")
DIFF: Final = ("diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file.

    Attributes:
        path: its path relative to the top of the checkout.
        file: the file on disk, with the old content.
        text: the new content; None: the file is deleted.
    """

    path: str
    file: Path
    text: str | None


def diff_of(changes: Sequence[FileChange]) -> str:
    """Return a patch for `git apply` at the top of the checkout; empty without changes.

    Raises:
        CheckoutRefused: git is missing or fails.
    """
    if not changes:
        return ""
    git = shutil.which("git")
    if git is None:
        raise CheckoutRefused("git is not installed; it writes the patch")
    with tempfile.TemporaryDirectory(prefix="sidecar-patch-") as folder:
        top = Path(folder)
        _git(git, top, "init", "-q", "--template=")
        for change in changes:
            (top / change.path).parent.mkdir(parents=True, exist_ok=True)
            # `copy` keeps the mode of the file. Otherwise the patch would also change the mode.
            shutil.copy(change.file, top / change.path)
        # Forced, because a file of the checkout may be one that git ignores.
        _git(git, top, "add", "--force", "--all")
        for change in changes:
            if change.text is None:
                (top / change.path).unlink()
            else:
                (top / change.path).write_bytes(change.text.encode())
        return _git(git, top, *DIFF).decode("utf-8", "surrogateescape")


def _git(git: str, folder: Path, *arguments: str) -> bytes:
    try:
        completed = subprocess.run(  # noqa: S603  fixed commands in a folder of our own
            [git, *OPTIONS, *arguments],
            cwd=folder,
            capture_output=True,
            check=True,
            timeout=SECONDS,
            # A fixed environment: variables such as GIT_DIR would make git work on another repository.
            env={"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CheckoutRefused(f"git cannot write the patch: {type(error).__name__}") from None
    return completed.stdout
