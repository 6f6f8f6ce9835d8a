"""The audit sink `jsonl`: every event as one line of a file, on disk before it counts as taken."""

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.policy.audit import AuditEntry

TAIL: Final = 1024 * 1024
"""Bytes at the end of the file that are searched for the last whole line; no event is longer."""
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {
            "type": "string",
            "minLength": 1,
            "description": "The file, in a directory that is there; made with mode 0600 if it is absent.",
        }
    },
    "required": ["path"],
    "additionalProperties": False,
}


class JsonLinesSink:
    """Appends. The file is opened for each batch, so that it may be moved away at any time.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = threading.Lock()  # a batch that was given up may still be written while the next one comes

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Append a line for each, and wait until they are on disk. Raises `OSError`: then none of them stays."""
        lines = [json.dumps(dict(entry.fields), ensure_ascii=True) + "\n" for entry in entries]
        await asyncio.to_thread(self._append, "".join(lines).encode("ascii"))

    async def close(self) -> None:
        """Hold nothing open."""

    def _append(self, lines: bytes) -> None:
        with self._writing:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                end = _end_of_whole_lines(file)
                try:
                    _write_at(file, end, lines)
                except OSError:
                    os.ftruncate(file, end)  # a disk that is full in the middle of a line
                    raise
            finally:
                os.close(file)


def made(settings: Mapping[str, Any]) -> JsonLinesSink:
    """Make one from `[audit_sinks.jsonl]`."""
    return JsonLinesSink(Path(settings["path"]))


def _end_of_whole_lines(file: int) -> int:
    """Return where the last whole line ends: what a crash left behind it was never taken, and is written over."""
    size = os.fstat(file).st_size
    begin = max(0, size - TAIL)
    return begin + os.pread(file, size - begin, begin).rfind(b"\n") + 1


def _write_at(file: int, end: int, lines: bytes) -> None:
    os.ftruncate(file, end)
    written = 0
    while written < len(lines):
        written += os.pwrite(file, lines[written:], end + written)
    os.fsync(file)
