"""What stands between a sidecar and its server, and can fail: a small proxy from one Unix socket to another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from pathlib import Path

from tests.support.postgres import PORT, USER, PostgresServer


class Fault(Enum):
    """How the next append that comes through is cut off. Nobody is told whether it was carried out."""

    CUT_BEFORE_ANSWER = auto()
    """The server has it, and has answered; the answer gets lost."""
    CUT_WHILE_SENDING = auto()
    """Half of it has reached the server."""
    CUT_AFTER_SENDING = auto()
    """The server has it; the connection is gone while it works."""


APPENDS = b'[["'
"""How the unsettled dispatches of a turn begin, which an append sends; nothing else that is sent has it."""


class Network:
    """The proxy.

    Attributes:
        silent: nothing arrives any more, in either direction, and nobody is told.
        fault: of the next append.
        struck: set once that has happened.
        strikes: what an append, or whatever else the fault is for, has in it and nothing else has.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.silent = False
        self.fault: Fault | None = None
        self.struck = asyncio.Event()
        self.strikes = APPENDS
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []
        self._carrying: list[asyncio.Future[None]] = []

    def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one more connection."""
        self._carrying.append(asyncio.ensure_future(self._carry(reader, writer)))

    async def ended(self) -> None:
        """End every connection, and wait for what carries it."""
        self.cut()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            from_server, to_server = await asyncio.open_unix_connection(str(self._server.socket))
        except OSError:
            writer.transport.abort()
            return
        self._writers.append(to_server)
        losing = asyncio.Event()
        try:
            await asyncio.gather(
                self._to_server(reader, to_server, writer, losing),
                self._to_client(from_server, writer, to_server, losing),
            )
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            to_server.transport.abort()

    async def _to_server(
        self,
        reader: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        client: asyncio.StreamWriter,
        losing: asyncio.Event,
    ) -> None:
        while data := await reader.read(1 << 20):
            if self.silent:
                continue
            fault = self.fault if self.strikes in data else None
            if fault is None:
                server.write(data)
                await server.drain()
                continue
            self.fault = None
            server.write(data[: len(data) // 2] if fault is Fault.CUT_WHILE_SENDING else data)
            await server.drain()
            if fault is Fault.CUT_BEFORE_ANSWER:
                losing.set()
                continue
            client.transport.abort()
            self.struck.set()
            return
        server.transport.abort()

    async def _to_client(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        server: asyncio.StreamWriter,
        losing: asyncio.Event,
    ) -> None:
        while data := await reader.read(1 << 20):
            if losing.is_set():
                client.transport.abort()
                server.transport.abort()
                self.struck.set()
                return
            if not self.silent:
                client.write(data)
                await client.drain()
        client.transport.abort()

    def cut(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


@asynccontextmanager
async def network_before(server: PostgresServer, folder: Path, database: str) -> AsyncIterator[tuple[Network, str]]:
    """Give a network that leads to a database, and the address through it."""
    network = Network(server)
    listening = await asyncio.start_unix_server(network.carry, folder / f".s.PGSQL.{PORT}")
    try:
        yield network, f"postgresql://{USER}@/{database}?host={folder}&port={PORT}"
    finally:
        listening.close()
        await network.ended()
        await listening.wait_closed()
