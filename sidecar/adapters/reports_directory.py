"""Writes the reports of sub-agents as files below the directory `workspace.directory`, and never outside of it.

Other programs may create symbolic links in this directory at any time. Each part of a path is therefore opened relative
to its parent directory, without following links. A report is written under a temporary name and renamed at the end.
This replaces a link of the same name, and no program sees an incomplete report.
"""

import asyncio
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY: Final = ".part"


class ReportsDirectoryUnusable(Exception):
    """The configured directory does not exist, is not a directory, or is not writable."""


class ReportsDirectory:
    """Writes files below one existing directory. Files get mode 0600, folders 0700."""

    def __init__(self, directory: Path) -> None:
        """Check that the directory exists and is writable.

        Raises:
            ReportsDirectoryUnusable: it is not; the message has the cause.
        """
        self._directory = directory
        try:
            root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ReportsDirectoryUnusable(f"{directory}: {error.strerror}; make it, or leave it out") from None
        os.close(root)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ReportsDirectoryUnusable(f"{directory} may not be written to by this user")

    async def write(self, path: tuple[str, ...], text: str) -> None:
        """Write a file, in a thread. Implements `ReportFiles`.

        Args:
            path: the names of the folders, which are created if absent, and of the file.
            text: the content.

        Raises:
            ValueError: a part of the path is not a plain name.
            OSError: the file cannot be written, or a part of the path is a link.
        """
        await asyncio.to_thread(self._write, path, text.encode(errors="replace"))

    def _write(self, path: tuple[str, ...], content: bytes) -> None:
        if not path or any(part in {"", ".", ".."} or "/" in part or "\0" in part for part in path):
            raise ValueError("a part of the path is no plain name")
        *folders, name = path
        # The configured directory itself may be a link, because the operator chose it. Below it, links are refused.
        here = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                below = _open_folder(here, folder)
                os.close(here)
                here = below
            _replace(here, name, content)
        finally:
            os.close(here)


def _open_folder(here: int, folder: str) -> int:
    """Open a folder inside the open folder `here`, and create it if absent. Return its file descriptor."""
    # No check before: another program may create the folder in between.
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700, dir_fd=here)
    return os.open(folder, FOLDER, dir_fd=here)


def _replace(here: int, name: str, content: bytes) -> None:
    """Write a file in the open folder `here`; replaces a file or link of this name, but not a directory."""
    # A random name, so that no other program can create a link of that name beforehand.
    temporary = f".{os.urandom(8).hex()}{TEMPORARY}"
    file = os.open(temporary, NEW_FILE, 0o600, dir_fd=here)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            # Before the rename: otherwise a power failure could leave an empty file under the final name.
            os.fsync(opened.fileno())
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                raise IsADirectoryError(f"{name} is a directory")
        os.replace(temporary, name, src_dir_fd=here, dst_dir_fd=here)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=here)
        raise
