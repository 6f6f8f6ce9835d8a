"""Flags from one file, known by its content and not by its time stamp."""

import asyncio
import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from sidecar.adapters.flags_file.parsing import FlagFileProblem, flags_in_json, flags_in_toml
from sidecar.core.decoding import Undecodable, from_utf8
from sidecar.policy.protocols import FlagReport

LARGEST_FILE: Final = 1024 * 1024
"""Bytes; some 20,000 flags."""


class FileFlags:
    """A flag backend that reads a file.

    A rename over the file, a write in place, a swapped symbolic link and an older copy put back are all seen, because
    the content's hash is the revision. A missing, half-written, oversize or invalid file raises: the last report ages.

    Args:
        path: ends in `.json` or `.toml`.
        poll_interval: seconds between two looks while waiting for a change.
    """

    def __init__(self, path: Path, poll_interval: float) -> None:
        self._path = path
        self._poll_interval = poll_interval
        self._fetched = ""
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flags-file")

    async def fetch(self) -> FlagReport:
        """Read the file. Raises `FlagFileProblem` or `OSError`."""
        content = await self._content()
        parse = flags_in_toml if self._path.suffix == ".toml" else flags_in_json
        try:
            flags = parse(from_utf8(content))
        except Undecodable as error:
            raise FlagFileProblem(f"{self._path} is not UTF-8") from error
        except FlagFileProblem as problem:
            raise FlagFileProblem(f"{self._path} {problem}") from problem
        self._fetched = _revision(content)
        on = frozenset(name for name, state in flags.items() if state)
        return FlagReport(on, self._fetched, frozenset(flags) - on)

    async def changed(self) -> None:
        """Return once the file's content differs from what was fetched last; an unreadable file is no change."""
        while True:
            try:
                if _revision(await self._content()) != self._fetched:
                    return
            except (OSError, FlagFileProblem):
                pass  # `fetch`, which the timer calls too, reports it
            await asyncio.sleep(self._poll_interval)

    async def close(self) -> None:
        """Stop reading; a read that hangs in the kernel is left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _content(self) -> bytes:
        """Read in the one thread: a dead network drive must not stop the loop, and threads must not pile up.

        A read that was cancelled before it began never begins.
        """
        return await asyncio.wrap_future(self._threads.submit(_read, self._path))


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe would block an ordinary open
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FlagFileProblem(f"{path} is not a regular file")
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise FlagFileProblem(f"{path} is larger than {LARGEST_FILE} bytes")
    return content


def _revision(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
