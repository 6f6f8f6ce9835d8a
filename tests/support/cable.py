"""A connection that can be cut: a proxy between two Unix sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


class Cable:
    """Passes bytes both ways until it is cut.

    Attributes:
        connections: how many were made.
    """

    def __init__(self, behind: Path) -> None:
        self.connections = 0
        self._behind = behind
        self._open: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """Break every connection, as if the process behind had been killed. New ones are taken."""
        writers, self._open = self._open, []
        for writer in writers:
            writer.transport.abort()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        self.connections += 1
        try:
            other_reader, other_writer = await asyncio.open_unix_connection(self._behind)
        except OSError:
            writer.transport.abort()
            return
        self._open += [writer, other_writer]
        await asyncio.gather(_pass_on(reader, other_writer), _pass_on(other_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def cable(front: Path, behind: Path) -> AsyncIterator[Cable]:
    """Lay a cable from one socket to another; both ends are gone afterwards."""
    laid = Cable(behind)
    server = await asyncio.start_unix_server(laid.take, front)
    try:
        yield laid
    finally:
        server.close()
        laid.cut()
        await asyncio.sleep(0)
