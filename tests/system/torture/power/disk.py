"""The disk of a process as its write log tells it, and as a power cut at any moment would leave it.

Names of files are durable at once, as on a file system with a journal. Contents are durable after a sync of their file;
what was written since may be there or not, sector by sector of 512 bytes, in any order.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from random import Random
from typing import Final

SECTOR: Final = 512
HEAD: Final = struct.Struct("=5Q")
SHARED_MEMORY: Final = "-shm"
"""How the index of a write-ahead log ends: it is mapped memory, and made anew after a cut."""


class Kind(IntEnum):
    """What a record says; the numbers are those of `write_log.c`."""

    OPENED = 1
    WROTE = 2
    SYNCED = 3
    TRUNCATED = 4
    RENAMED = 5
    REMOVED = 6
    LINKED = 7


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the log; `at`: CLOCK_MONOTONIC in ns."""

    kind: Kind
    at: int
    inode: int
    offset: int
    data: bytes


@dataclass(slots=True)
class _File:
    """Attributes: durable: what no cut takes away. since: writes and truncations after the last sync, in order."""

    durable: bytearray = field(default_factory=bytearray)
    since: list[Change] = field(default_factory=list)


def changes_in(log: bytes) -> Iterator[Change]:
    """Yield the records of a log; one that the process was killed in is left out."""
    at = 0
    while at + HEAD.size <= len(log):
        kind, time, inode, offset, length = HEAD.unpack_from(log, at)
        at += HEAD.size
        if at + length > len(log):
            return
        yield Change(Kind(kind), time, inode, offset, log[at : at + length])
        at += length


class Disk:
    """What a process has written below a folder.

    Args:
        folder: that was logged.
        before: content of each file as it was when the process began, by path.
        log: the write log.
        lying: the control: a disk that says that it has synced, and has not.
    """

    def __init__(self, folder: Path, before: dict[Path, bytes], log: bytes, *, lying: bool = False) -> None:
        self._folder = folder.resolve()
        self._before = {path.resolve(): content for path, content in before.items()}
        self._lying = lying
        self.changes: Sequence[Change] = list(changes_in(log))
        self._times = [change.at for change in self.changes]

    def until(self, time: int) -> int:
        """Return how many changes were made until a moment."""
        return bisect_right(self._times, time)

    def after_cut(self, count: int, chance: Random) -> dict[Path, bytes]:
        """Return the content of each file if the power goes after so many changes, by its path in the folder."""
        names: dict[Path, int] = {}
        files: dict[int, _File] = {}
        untouched = dict(self._before)
        for change in self.changes[:count]:
            self._apply(change, names, files, untouched)
        kept = untouched | {path: _torn(files[inode], chance) for path, inode in names.items()}
        return {path.relative_to(self._folder): content for path, content in kept.items()}

    def _apply(
        self, change: Change, names: dict[Path, int], files: dict[int, _File], untouched: dict[Path, bytes]
    ) -> None:
        match change.kind:
            case Kind.OPENED:
                path = Path(change.data.decode())
                content = untouched.pop(path, b"")
                if change.offset == 0:
                    files[change.inode] = _File()
                elif change.inode not in files:
                    files[change.inode] = _File(bytearray(content))
                names[path] = change.inode
            case Kind.WROTE | Kind.TRUNCATED:
                files[change.inode].since.append(change)
            case Kind.SYNCED:
                if not self._lying:
                    synced = files[change.inode]
                    for each in synced.since:
                        _write(synced.durable, each.offset, each.data, each.kind)
                    synced.since.clear()
            case Kind.RENAMED:
                before, _, after = change.data.decode().partition("\0")
                untouched.pop(Path(after), None)
                if Path(before) in names:
                    names[Path(after)] = names.pop(Path(before))
            case Kind.LINKED:
                before, _, after = change.data.decode().partition("\0")
                names[Path(after)] = names[Path(before)]
            case Kind.REMOVED:
                names.pop(Path(change.data.decode()), None)
                untouched.pop(Path(change.data.decode()), None)


def _torn(file: _File, chance: Random) -> bytes:
    """Return a file whose unsynced writes are there whole, in part, or not at all."""
    content = bytearray(file.durable)
    how, last = chance.randrange(4), chance.randint(0, len(file.since))
    for number, change in enumerate(file.since):
        whole = how == 0 or (how == 1 and number < last)
        if whole or change.kind is Kind.TRUNCATED:
            if whole or how == 2:
                _write(content, change.offset, change.data, change.kind)
            continue
        if how == 3 or (how == 1 and number > last):  # nothing, or nothing behind the write that was torn
            continue
        for begin in range(0, len(change.data), SECTOR):
            if chance.random() < 0.5:
                _write(content, change.offset + begin, change.data[begin : begin + SECTOR], change.kind)
    return bytes(content)


def _write(content: bytearray, offset: int, data: bytes, kind: Kind) -> None:
    if kind is Kind.TRUNCATED:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def contents_of(folder: Path) -> dict[Path, bytes]:
    """Return the content of each file below a folder as it is now; mapped memory is left out."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not _is_shared(path)}


def lay_out(files: dict[Path, bytes], folder: Path) -> None:
    """Write files below a folder that is empty or not there."""
    for path, content in files.items():
        if not _is_shared(path):
            target = folder / path
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.touch(mode=0o600)
            target.write_bytes(content)


def _is_shared(path: Path) -> bool:
    return path.name.endswith(SHARED_MEMORY)
