"""A disk that can be full, fail, or lose its power, below a real SQLite.

Everything that was written and not yet synced may be lost when the power is cut: all of it, none, or any part.
"""

from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from random import Random
from typing import Any

import apsw


class Fault(Enum):
    """What happens to the disk."""

    POWER_CUT = auto()
    """Nothing works any more."""
    FULL = auto()
    """A few writes find no room."""
    SYNC_FAILS = auto()
    """One sync, and whatever is tried right after it, does not work."""


@dataclass
class _File:
    """What is durable, and what was written since: place and data, or a new length."""

    durable: bytearray
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def written(self, chosen: list[tuple[int, bytes | None]]) -> bytearray:
        """Return the durable contents with some of the writes since."""
        image = bytearray(self.durable)
        for at, data in chosen:
            if data is None:
                del image[at:]
                continue
            image.extend(bytes(max(0, at - len(image))))
            image[at : at + len(data)] = data
        return image


@dataclass
class Plan:
    """What goes wrong, from the `at`-th operation on, for so many operations."""

    fault: Fault
    at: int
    lasting: int


class Disk(apsw.VFS):
    """A file system of SQLite. Operations are writes, truncations and syncs, of all files together.

    Args:
        name: under which SQLite knows it.
        plan: what goes wrong; None: nothing.
    """

    def __init__(self, name: str, plan: Plan | None = None) -> None:
        """Register it."""
        self.plan = plan
        self.operations = 0
        self.struck = 0
        self._files: dict[str, _File] = {}
        super().__init__(name, "")
        self._name = name

    def xOpen(self, name: Any, flags: list[int]) -> "DiskFile":  # noqa: N802 - SQLite's name
        """Open a file."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if path not in self._files:
            file = Path(path)
            self._files[path] = _File(bytearray(file.read_bytes() if file.exists() else b""))
        return DiskFile(self, name, flags, self._files[path])

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802 - SQLite's name
        """Remove a file."""
        self._files.pop(name, None)
        super().xDelete(name, sync)

    @property
    def power(self) -> bool:
        """Whether it has any."""
        return self.plan is None or self.plan.fault is not Fault.POWER_CUT

    def happens(self, *, sync: bool) -> None:
        """Count an operation; raise if it does not work."""
        self.operations += 1
        plan = self.plan
        if plan is None or self.operations < plan.at:
            return
        if plan.fault is Fault.POWER_CUT:
            self.struck += 1
            raise apsw.IOError("the power is gone")
        if self.operations >= plan.at + plan.lasting + self.struck and self.struck:
            return
        if plan.fault is Fault.FULL and not sync:
            self.struck += 1
            if self.struck <= plan.lasting:
                raise apsw.FullError("no room")
        if plan.fault is Fault.SYNC_FAILS and (sync or self.struck):
            self.struck += 1
            if self.struck <= plan.lasting:
                raise apsw.IOError("the disk fails")

    def after_death(self, folder: Path, name: str) -> "Disk":
        """Return a disk with the files that the next process finds, in `folder`.

        They hold what the kernel still has, whether or not it is durable. The index of the log is not among them: no
        process has it open any more.
        """
        folder.mkdir()
        left = Disk(name)
        for path, file in self._files.items():
            target = folder / Path(path).name
            target.write_bytes(Path(path).read_bytes())
            left._files[str(target)] = _File(bytearray(file.durable), list(file.pending))
        return left

    def after_power_cut(self, folder: Path, chance: Random) -> None:
        """Write what a power cut leaves to `folder`; the index of the log is in memory, and gone."""
        folder.mkdir()
        keep = chance.choice((0.0, 0.5, 1.0))
        for path, file in self._files.items():
            chosen = [write for write in file.pending if chance.random() < keep]
            (folder / Path(path).name).write_bytes(file.written(chosen))


class DiskFile(apsw.VFSFile):
    """An open file of a `Disk`."""

    def __init__(self, disk: Disk, name: Any, flags: list[int], file: _File) -> None:
        """Open it below."""
        self._disk = disk
        self._file = file
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Write; not durable yet."""
        self._disk.happens(sync=False)
        super().xWrite(data, offset)
        self._file.pending.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        """Shorten; not durable yet."""
        self._disk.happens(sync=True)
        super().xTruncate(newsize)
        self._file.pending.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        """Make durable what was written: only in the books, as the real disk keeps its power."""
        try:
            self._disk.happens(sync=True)
        except apsw.IOError:
            if self._disk.power:  # what a failed sync was to write is clean for the kernel, and never written again
                self._file.pending.clear()
            raise
        self._file.durable = self._file.written(self._file.pending)
        self._file.pending.clear()
