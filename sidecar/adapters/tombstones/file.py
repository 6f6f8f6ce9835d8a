"""Keeps the stops of this sidecar, i.e. kills and ramp-downs, in a file, so that they outlive a crash.

Only this process writes the file. A stop is on disk before its request is answered. If it cannot be written, it is in
effect in memory, and is written together with the next stop.

Entries are appended. A large file is replaced by one with the entries that still count. Without this, a program that
ramps definitions down automatically would let the file grow beyond `LARGEST` within months, and the sidecar would not
start.
"""

import asyncio
import fcntl
import os
import stat
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from sidecar.adapters.tombstones.lines import TombstoneEntry, TombstoneFileContents, line_of, read_lines, recorded_line
from sidecar.adapters.tombstones.memory import TombstonesInMemory
from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import LocalStop

REWRITTEN_FROM: Final = 256 * 1024
"""Size in bytes from which a file is compacted. It is compacted again when it has twice the size of the result."""
MOST_NAMED: Final = 5
"""Maximum number of damaged lines that a report names."""
LARGEST: Final = 16 * 1024 * 1024
"""Maximum size in bytes. A kill takes about 500, so a larger file is not a tombstone file."""


class TombstonesUnusable(Exception):
    """The file cannot be used. The message names the file and the cause.

    The sidecar does not start then, because it could serve definitions that were killed.
    """


class TombstonesInFile:
    """Implements `Tombstones` with an open file.

    Args:
        path: the path of the file.
        handle: the open file, locked for this process.
        contents: what was read from the file.
    """

    def __init__(self, path: Path, handle: int, contents: TombstoneFileContents) -> None:
        self._path = path
        self._handle = handle
        self._rewritten_from = REWRITTEN_FROM  # size in bytes from which the next write compacts the file
        # `held`: definitions that a damaged line may have killed. They count as killed.
        self._memory = TombstonesInMemory(contents.stops, contents.recorded, contents.held)
        self._damaged = b"".join(raw + b"\n" for raw in contents.damaged.values())
        self._unwritten = b""  # lines that are in effect, but not in the file yet
        self._length = contents.length  # size of the complete lines; the next write begins there
        self._writing: asyncio.Future[None] | None = None

    async def add(self, stop: LocalStop) -> None:
        """Apply a stop immediately, then write it durably. Raises `OSError`."""
        if self._memory.remember(stop):
            await self._keep(line_of(TombstoneEntry(stop=stop)))
        elif self._unwritten:
            await self._keep(b"")

    def all(self) -> frozenset[Digest]:
        """Return the digests of all definitions that were killed at this sidecar."""
        return self._memory.all()

    def ramped_down(self) -> frozenset[Digest]:
        """Return the digests of all definitions whose ramp counts as 0 % at this sidecar."""
        return self._memory.ramped_down()

    def pending(self) -> Sequence[LocalStop]:
        """Return the stops that the rollout store does not have yet, oldest first."""
        return self._memory.pending()

    def pending_again(self, killed: frozenset[Digest]) -> None:
        """Mark recorded kills as pending again, in memory only: the rollout store has lost them."""
        self._memory.pending_again(killed)

    async def recorded(self, stop: LocalStop) -> None:
        """Store durably that the rollout store has a stop. Raises `OSError`."""
        if self._memory.settled(stop):
            await self._keep(recorded_line(stop.key))

    async def close(self) -> None:
        """Wait for the running write, and close the file."""
        if self._writing is not None:
            # Its error has reached the callers. The file must be closed in any case.
            await asyncio.gather(self._writing, return_exceptions=True)
        os.close(self._handle)

    async def _keep(self, line: bytes) -> None:
        """Write a line, together with earlier lines that could not be written. Raises `OSError`.

        An empty line writes the earlier ones: a repeated request must not be answered before its stop is on disk.
        """
        self._unwritten += line
        # One write at a time: two would begin at the same position and overwrite each other. The loop of a running
        # write also writes the lines that are added meanwhile.
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write())
            self._writing.add_done_callback(_retrieve_error)
        # Shielded: the cancellation of a caller must not interrupt the write, which other callers wait for.
        await asyncio.shield(self._writing)

    async def _write(self) -> None:
        while content := self._unwritten:
            if self._length + len(content) <= self._rewritten_from or not await self._compact():
                await asyncio.to_thread(self._append, content)
            # Only after the write: a failed one leaves its lines for the next. Lines that were added meanwhile stay.
            self._unwritten = self._unwritten[len(content) :]

    async def _compact(self) -> bool:
        """Replace the file by a compacted one. Return False if this fails; the file then continues to grow.

        The next attempt follows when the file has doubled.
        """
        stops, recorded = self._memory.needed()  # includes lines that are not written yet
        compacted = b"".join(
            (self._damaged, *(line_of(TombstoneEntry(stop=each)) for each in stops), *map(recorded_line, recorded))
        )
        # The threshold is raised before the attempt: if the disk fails, not every further line tries it again.
        self._rewritten_from = max(REWRITTEN_FROM, 2 * max(self._length, len(compacted)))
        try:
            await asyncio.to_thread(self._replace, compacted)
        except OSError:
            return False
        self._rewritten_from = max(REWRITTEN_FROM, 2 * len(compacted))
        return True

    def _replace(self, whole: bytes) -> None:
        """Write a new file and rename it over the present one. Runs in a thread.

        The new file is locked before the rename, so that no other process can lock the file at this path in between.
        The folder is synced last. Otherwise a power cut could restore the old file, which lacks later stops.
        """
        fresh = self._path.with_name(f"{self._path.name}.new")
        handle = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_at(handle, whole, 0)
            os.rename(fresh, self._path)
        except OSError:
            os.close(handle)
            raise
        old_handle, self._handle, self._length = self._handle, handle, len(whole)
        os.close(old_handle)
        # If this fails, the caller appends its lines to the new file, where they are already. Lines that occur twice
        # have the effect of one.
        _sync_folder(self._path.parent)

    def _append(self, content: bytes) -> None:
        """Write complete lines or none, and sync. Runs in a thread."""
        try:
            _write_at(self._handle, content, self._length)
        except OSError:
            # Otherwise the next line would be appended to an incomplete one.
            os.ftruncate(self._handle, self._length)
            raise
        self._length += len(content)


@asynccontextmanager
async def opened_tombstones(path: Path, report: Callable[[str, str], None]) -> AsyncIterator[TombstonesInFile]:
    """Open the file while the context is open, and create it if it does not exist.

    Args:
        path: the path of the file, whose folder is created if absent.
        report: receives the kind and the text of a problem with the content.

    Raises:
        TombstonesUnusable: the file cannot be read or created, other users may read or write it, or another process has
            locked it.
    """
    try:
        # In a thread, because it reads and syncs the file. Binds begin only afterwards: without the kills of the last
        # process, they could serve killed definitions.
        handle, contents = await asyncio.to_thread(_open, path)
    except OSError as error:
        raise TombstonesUnusable(f"{path} cannot be used: {error.strerror}") from None
    if contents.damaged:
        report("tombstones_damaged", _damage(path, contents))
    tombstones = TombstonesInFile(path, handle, contents)
    try:
        yield tombstones
    finally:
        await tombstones.close()


def _damage(path: Path, contents: TombstoneFileContents) -> str:
    """Return a text about the unreadable lines, their effect, and the remedy."""
    lines = ", ".join(str(number) for number, _ in zip(contents.damaged, range(MOST_NAMED), strict=False))
    perhaps_killed = ", ".join(sorted(contents.held)[:MOST_NAMED]) or "none can be told from them"
    return (
        f"line {lines} of {path} cannot be read and may have been a kill. "
        f"Not served here because of that: {perhaps_killed}. "
        "Compare the file with the record, repeat the kills that the record lacks, then remove the line while the "
        "sidecar is stopped"
    )


def _retrieve_error(writing: "asyncio.Future[None]") -> None:
    """Retrieve the error of a write, so that asyncio does not log it: callers that wait receive it."""
    if not writing.cancelled():
        writing.exception()


def _open(path: Path) -> tuple[int, TombstoneFileContents]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # NOFOLLOW: a link could lead to a file of another program, which would be truncated. NONBLOCK: opening a named pipe
    # must not block the start.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        contents = _check_and_read(path, handle)
        _sync_folder(path.parent)
    except BaseException:
        os.close(handle)
        raise
    return handle, contents


def _check_and_read(path: Path, handle: int) -> TombstoneFileContents:
    """Lock the file, refuse one that cannot be used (`TombstonesUnusable`), and return its contents.

    Completes or removes the end of the last line, so that the next write begins on a new line.
    """
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
        raise TombstonesUnusable(f"{path} is no file of tombstones; move it away")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = status.st_mode & 0o777
        raise TombstonesUnusable(f"{path} may be read or written by others (mode {mode:04o}): chmod 0600 it")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TombstonesUnusable(f"{path} is used by another sidecar; give each a file of its own") from None
    # Another process may have replaced the file by a compacted one between the opening and the lock.
    if os.stat(path).st_ino != status.st_ino:
        raise TombstonesUnusable(f"{path} was replaced just now: another sidecar uses it; give each a file of its own")
    content = os.pread(handle, status.st_size, 0)
    contents = read_lines(content)
    # `length` counts a line end for each complete line. It exceeds the content if the last line lacks only this line
    # end, which is written here: the next line would otherwise be appended to the last one.
    if contents.length > len(content):
        _write_at(handle, b"\n", len(content))
    # Changes the file only if its last line is incomplete. The stop of such a line was never acknowledged, so the line
    # is removed: the next write would begin in it.
    os.ftruncate(handle, contents.length)
    return contents


def _write_at(handle: int, content: bytes, begin: int) -> None:
    """Write all bytes, and wait for the disk."""
    written = 0
    while written < len(content):
        written += os.pwrite(handle, content[written:], begin + written)
    os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that a new file survives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
