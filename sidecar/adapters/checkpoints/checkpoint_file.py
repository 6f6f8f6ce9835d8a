"""Appends checkpoints (signed hashes over the record) to a file, one line each, under a lock and durably.

Several sidecars on one machine may append to one file. The file never needs another access than appending, so that it
can be append-only (`chattr +a`). It protects better on another disk than beside the database.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Final

from sidecar.core.signatures import Signer
from sidecar.core.verifying.checkpoint_lines import (
    NO_LINE,
    CheckpointLine,
    LineKind,
    Statement,
    furthest,
    furthest_audit,
    line_from,
    line_hash,
    line_text,
    signed_line,
)
from sidecar.operations.record.checkpoint_ports import CheckpointHead, CheckpointStoreUnavailable

LOOKS_BACK: Final = 1024 * 1024
"""Bytes at the end of the file that are read to find the newest lines, about 2,000."""
LINE_DAMAGED: Final = "checkpoint_line_damaged"
MOST_NAMED: Final = 5
"""Maximum number of damaged lines that one report names by their numbers."""


class CheckpointFile:
    """Appends to one file.

    Args:
        path: the file. If absent, it is created with mode 0644, and its folder with mode 0700.
        signer: signs every line. Its key may be replaced while the sidecar runs.
        report: receives the kind and the text of a problem. Each unreadable line is reported once.
    """

    def __init__(self, path: Path, signer: Signer, report: Callable[[str, str], None]) -> None:
        self._path = path
        self._signer = signer
        self._report = report
        self._reported: set[int] = set()

    async def standing(self) -> CheckpointHead:
        """Return the newest checkpoint of each running root that the last `LOOKS_BACK` bytes contain."""
        # In a thread, because another sidecar may have the lock, and the disk may be slow.
        standing, damaged_lines = await asyncio.to_thread(self._read_standing)
        self._report_damaged(damaged_lines)
        return standing

    async def append(self, statements: Sequence[Statement]) -> None:
        """Sign the statements, link each to the line before it, and append them durably."""
        signer = copy(self._signer)  # one key for all lines, even if the key is replaced meanwhile
        self._report_damaged(await asyncio.to_thread(self._append, statements, signer))

    def _report_damaged(self, lines: str) -> None:
        if lines:
            self._report(LINE_DAMAGED, f"{lines} of {self._path} cannot be read, passed over; see `sidecar verify-log`")

    def _read_standing(self) -> tuple[CheckpointHead, str]:
        """Return the newest checkpoints, and a text that names damaged lines that were not reported before."""
        with self._locked() as handle:
            lines, _, damaged = _end_of(handle)
            roots = furthest(line for line, _ in lines)
            days = [line.day for line, _ in lines if line.kind is LineKind.CHECKPOINT]
            # If older lines were not read, roots of earlier days may have checkpoints that are not known here.
            since = min(days, default=None) if os.fstat(handle).st_size > LOOKS_BACK else None
            return CheckpointHead(roots, furthest_audit(line for line, _ in lines), since), self._unreported_lines(
                handle, damaged
            )

    def _append(self, statements: Sequence[Statement], signer: Signer) -> str:
        """Append signed lines. Return a text that names damaged lines that were not reported before."""
        with self._locked() as handle:
            lines, unfinished, damaged = _end_of(handle)
            # Without a readable line there is no hash to link to. Behind older lines, which were not read here, a new
            # chain would hide that lines are missing. A short file was read whole, and has no checkpoint at all.
            if not lines and os.fstat(handle).st_size > LOOKS_BACK:
                raise CheckpointStoreUnavailable(
                    f"the end of {self._path} holds no checkpoint; move the file away to begin anew"
                )
            sequence, previous = (lines[-1][0].sequence, line_hash(lines[-1][1])) if lines else (0, NO_LINE)
            # If the file ends within a line, a process was killed while it wrote. The incomplete line stays, and the
            # verification reports it.
            content = b"\n" if unfinished else b""
            for statement in statements:
                sequence += 1
                text = line_text(signed_line(statement, sequence, previous, signer))
                # Each line contains the hash of the one before it, so a line cannot be removed unnoticed.
                previous = line_hash(text)
                content += text + b"\n"
            _write_whole(handle, content)
            # Synced before the lock is released: another sidecar must not link to a line that a power failure removes.
            os.fsync(handle)
            return self._unreported_lines(handle, damaged)

    def _unreported_lines(self, handle: int, damaged: Sequence[int]) -> str:
        """Return the numbers of damaged lines that were not reported before, as a text; empty: there are none.

        Args:
            handle: the open file.
            damaged: the positions in bytes at which the lines begin.
        """
        # Lines are identified by their position, which never changes in a file that is only appended to.
        unreported = [begin for begin in damaged if begin not in self._reported]
        self._reported.update(unreported)
        if not unreported:
            return ""
        # Counting reads the file from its beginning, which is acceptable once for each damaged line.
        numbers = ", ".join(str(_ends_before(handle, begin) + 1) for begin in unreported[:MOST_NAMED])
        more = f" and {len(unreported) - MOST_NAMED} more" if len(unreported) > MOST_NAMED else ""
        return f"line{'s' if len(unreported) > 1 else ''} {numbers}{more}"

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for appending under a lock; errors of the system become `CheckpointStoreUnavailable`."""
        try:
            # Before the file is opened, which creates it. Two sidecars may both sync the folder, which is
            # harmless.
            is_new = not self._path.exists()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                # Waits for another sidecar, which has the lock for milliseconds. A process that ends releases its lock.
                fcntl.flock(handle, fcntl.LOCK_EX)
                # Otherwise a power failure could remove the name of the file, and with it the synced content.
                if is_new:
                    _synchronise_folder(self._path.parent)
                yield handle
            finally:
                os.close(handle)
        except OSError as error:
            raise CheckpointStoreUnavailable(f"{self._path} cannot be used: {error.strerror}") from None


def _end_of(handle: int) -> tuple[list[tuple[CheckpointLine, bytes]], bool, list[int]]:
    """Read the end of the file.

    Returns:
        the newest lines with their texts, oldest first; whether the file ends within a line; and the positions in bytes
        at which complete but unreadable lines begin.
    """
    size = os.fstat(handle).st_size
    start = max(0, size - LOOKS_BACK)
    content = os.pread(handle, size - start, start)
    rows = content.split(b"\n")
    # The first row is the rest of a line that begins before the bytes that were read.
    whole_rows = rows if start == 0 else rows[1:]
    lines: list[tuple[CheckpointLine, bytes]] = []
    damaged: list[int] = []
    begin = start if start == 0 else start + len(rows[0]) + 1
    for row in whole_rows:
        line = line_from(row)
        if line is not None:
            lines.append((line, row))
        # A last row without an end of line is what a killed process left. The next append ends it, and from then on it
        # is reported as damaged.
        elif row and begin + len(row) < size:
            damaged.append(begin)
        begin += len(row) + 1
    return lines, bool(content) and not content.endswith(b"\n"), damaged


def _ends_before(handle: int, end: int) -> int:
    """Return the number of lines that end before a position in bytes."""
    return sum(os.pread(handle, min(LOOKS_BACK, end - at), at).count(b"\n") for at in range(0, end, LOOKS_BACK))


def _write_whole(handle: int, content: bytes) -> None:
    """Write all bytes."""
    # One call of the system may write only a part, e.g. on a disk that is nearly full.
    while content:
        content = content[os.write(handle, content) :]


def _synchronise_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
