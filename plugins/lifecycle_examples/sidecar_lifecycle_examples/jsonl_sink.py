"""The audit sink `jsonl`: appends each event to a file as one line, and acknowledges it when it is on disk."""

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.policy.audit import AuditEntry

TAIL: Final = 1024 * 1024
"""Number of bytes at the end of the file in which the last complete line is searched; no event is longer."""
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
    """Appends events to a file, which is opened for each batch, so that it can be moved away at any time.

    Args:
        path: path of the file, which is created if it is absent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = (
            threading.Lock()
        )  # a batch whose `take` was cancelled may still be written when the next one starts

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Append one line for each event, and wait until all are on disk. Raises `OSError`; then no line is kept."""
        lines = [json.dumps(dict(entry.fields), ensure_ascii=True) + "\n" for entry in entries]
        await asyncio.to_thread(self._append, "".join(lines).encode("ascii"))

    async def close(self) -> None:
        """Do nothing: no file is open between batches."""

    def _append(self, lines: bytes) -> None:
        with self._writing:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                end = _end_of_whole_lines(file)
                try:
                    _write_at(file, end, lines)
                except OSError:
                    os.ftruncate(file, end)  # e.g. the disk became full within a line
                    raise
            finally:
                os.close(file)


def made(settings: Mapping[str, Any]) -> JsonLinesSink:
    """Return a sink with the settings of the section `[audit_sinks.jsonl]`."""
    return JsonLinesSink(Path(settings["path"]))


def _end_of_whole_lines(file: int) -> int:
    """Return the offset after the last complete line; a crash may leave a partial line, which is overwritten."""
    size = os.fstat(file).st_size
    begin = max(0, size - TAIL)
    return begin + os.pread(file, size - begin, begin).rfind(b"\n") + 1


def _write_at(file: int, end: int, lines: bytes) -> None:
    os.ftruncate(file, end)
    written = 0
    while written < len(lines):
        written += os.pwrite(file, lines[written:], end + written)
    os.fsync(file)
