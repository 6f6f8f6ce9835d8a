"""A disk that can be full: a small file system where we may mount one, else a limit on what the process may write."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
LIMIT_BELOW: Final = 4096
"""Bytes that are less than any database has: no write ends within them."""


@dataclass
class Disk:
    """Where a record lies, and whether there is room.

    Attributes:
        mounted: it is a file system of its own; else the process is told that its files may not grow.
    """

    folder: Path
    mounted: bool

    def fill(self, pid: int) -> None:
        """Leave no room."""
        if not self.mounted:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (LIMIT_BELOW, resource.RLIM_INFINITY))
            return
        with (self.folder / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            for size in (MIB, 4096, 1):
                with contextlib.suppress(OSError):
                    while filler.write(b"x" * size):
                        pass

    def make_room(self, pid: int) -> None:
        """Take away what fills it."""
        if self.mounted:
            (self.folder / "filler").unlink()
        else:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Make `folder` a disk of a few megabytes."""
    folder.mkdir(mode=0o700)
    mounting = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "none", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mounting, check=False, capture_output=True).returncode == 0
    try:
        yield Disk(folder, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True, capture_output=True)
