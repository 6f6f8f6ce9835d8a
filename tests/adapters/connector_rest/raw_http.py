"""A server that sends exactly the bytes it is told, for answers no proper HTTP library would give."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RawServer:
    """Answers every connection's first request with `reply`, then closes or, if `hold`, keeps the connection open.

    Attributes:
        requests: head and body of each request, as received.
        received: set whenever a request has come in.
    """

    def __init__(self, reply: bytes, *, hold: bool) -> None:
        self.reply = reply
        self.hold = hold
        self.requests: list[bytes] = []
        self.received = asyncio.Event()
        self.ended = asyncio.Event()
        self.address = ""
        self._handlers: list[asyncio.Task[None] | None] = []

    async def serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self._handlers.append(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
            )
            self.requests.append(head + await reader.readexactly(length))
            self.received.set()
            writer.write(self.reply)
            await writer.drain()
            if self.hold:
                await self.ended.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def finish(self) -> None:
        """Let go of held connections and wait for every handler."""
        self.ended.set()
        await asyncio.gather(*(task for task in self._handlers if task is not None))


def http_reply(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return a whole HTTP/1.1 reply; `length` overrides what Content-Length says."""
    stated = len(body) if length is None else length
    head = [f"HTTP/1.1 {status}", *headers, f"content-length: {stated}", "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def raw_server(reply: bytes, *, hold: bool = False) -> AsyncIterator[RawServer]:
    """Serve `reply` on a free port of the loopback."""
    state = RawServer(reply, hold=hold)
    server = await asyncio.start_server(state.serve_one, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    state.address = f"http://{host}:{port}/v1/enrich"
    try:
        yield state
    finally:
        server.close()
        await state.finish()
        await server.wait_closed()
