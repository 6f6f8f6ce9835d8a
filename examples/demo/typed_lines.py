"""Reads typed lines without a thread, which would delay the end of the demo."""

import asyncio
import os
from collections import deque
from typing import Final

BLOCK: Final = 64 * 1024


class TypedLines:
    """Reads a terminal, a pipe or a file. Reads only when there is something, so the mode of a terminal stays as it is.

    Args:
        descriptor: of the open file; 0 is the standard input.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._begun = b""
        self._ended = False

    async def next(self) -> str | None:
        """Wait for a line and return it without its end; None when there will be no more."""
        while not self._lines and not self._ended:
            await self._readable()
            self._take(os.read(self._descriptor, BLOCK))
        return self._lines.popleft() if self._lines else None

    def _take(self, read: bytes) -> None:
        """Keep whole lines; a last one without an end counts too, and at a terminal the next read begins anew."""
        self._ended = not read
        *whole, self._begun = (self._begun + read).split(b"\n")
        if self._ended and self._begun:
            whole.append(self._begun)
        self._lines.extend(line.decode(errors="replace").rstrip("\r") for line in whole)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, there.set)
        except PermissionError:  # a plain file, which is always readable
            return
        try:
            await there.wait()
        finally:
            loop.remove_reader(self._descriptor)
