"""Serves the ops address, for Prometheus and probes: `GET /metrics`, `/healthz` and `/readyz` over HTTP/1.1.

A connection carries one request, because clients ask only every few seconds. A new probe always gets a connection: if
all are in use, the oldest connection is closed, preferably one that has not sent a request yet.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from ipaddress import ip_address
from typing import Final

from msgspec import Struct

from sidecar.rpc.socket_files import AddressInUse, CannotListen

SECONDS: Final = 5.0
"""The longest time for one connection, from its first byte to its last."""
IPV6: Final = 6
SILENCE: Final = 1.0
"""Seconds within which a request must be complete."""
MOST_CONNECTIONS: Final = 32
"""The most connections at a time: each needs a file descriptor, which turns need more."""
LARGEST_REQUEST: Final = 16 * 1024
"""The most bytes of a request."""


class Page(Struct, frozen=True):
    """A response."""

    status: int
    content_type: str
    body: bytes


Render = Callable[[str], Awaitable[Page]]
"""Returns a page; takes the `Accept` header of the request."""

NOT_FOUND: Final = Page(404, "text/plain; charset=utf-8", b"there are: /metrics /healthz /readyz\n")
NOT_ALLOWED: Final = Page(405, "text/plain; charset=utf-8", b"GET only\n")
BAD_REQUEST: Final = Page(400, "text/plain; charset=utf-8", b"not HTTP/1.1\n")
FAILED: Final = Page(500, "text/plain; charset=utf-8", b"see the log\n")


@contextmanager
def reserved(address: str) -> Iterator[socket.socket]:
    """Reserve an address while the context is open, without answering connections, for the beginning of a start.

    Args:
        address: an IP address and a port.

    Raises:
        AddressInUse: the port is in use.
        CannotListen: it cannot be bound.
    """
    host, _, port = address.rpartition(":")
    at = ip_address(host.strip("[]"))
    with socket.socket(socket.AF_INET6 if at.version == IPV6 else socket.AF_INET) as place:
        # Connections of the previous process in TIME_WAIT must not delay a restart.
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if at.version == IPV6:
            # Otherwise a listener at [::] would also take the port of IPv4, whatever the address says.
            place.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        with _naming_address(address):
            place.bind((str(at), int(port)))  # without `listen`: connections are refused until the server starts
        yield place


@contextmanager
def _naming_address(address: str) -> Iterator[None]:
    """Convert errors of the system to errors that name the ops address and a remedy."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = "stop it, or set another port; 0 takes any free one"
            raise AddressInUse(f"server.ops_address {address} is in use by another process; {remedy}") from None
        raise CannotListen(f"server.ops_address {address} cannot be bound: {error.strerror}") from None


class OpsHttp:
    """Serves pages over HTTP.

    Args:
        pages: by path.
        on_defect: receives the exceptions of pages.
        silence: seconds within which a request must be complete.
    """

    def __init__(
        self, pages: Mapping[str, Render], on_defect: Callable[[str, BaseException], None], silence: float = SILENCE
    ) -> None:
        self._pages = pages
        self._on_defect = on_defect
        self._silence = silence
        # Connections without a complete request, and those with one. Dictionaries keep the order of their arrival.
        self._silent: dict[asyncio.StreamWriter, None] = {}
        self._answering: dict[asyncio.StreamWriter, None] = {}

    @asynccontextmanager
    async def listening(self, address: str, place: socket.socket | None = None) -> AsyncIterator[str]:
        """Serve while the context is open; yields the address, with the real port if port 0 was configured.

        Args:
            address: host and port.
            place: a socket that `reserved` has bound to the address; None: it is bound now.

        Raises:
            AddressInUse: the port is in use.
            CannotListen: it cannot be bound.
        """
        host = address.rpartition(":")[0]
        with reserved(address) if place is None else nullcontext(place) as bound:
            with _naming_address(address):
                server = await asyncio.start_server(self._serve, limit=LARGEST_REQUEST, sock=bound)
            try:
                yield f"{host}:{server.sockets[0].getsockname()[1]}"
            finally:
                # Not awaited with `wait_closed`: it would wait for a client that keeps its connection open.
                server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; a failure ends only that connection."""
        if len(self._silent) + len(self._answering) >= MOST_CONNECTIONS:
            # Before this connection is entered, which would otherwise be a candidate itself.
            self._make_room()
        self._silent[writer] = None
        try:
            # A probe that leaves early, or sends nothing, is no event.
            with suppress(OSError, TimeoutError):
                # For the whole exchange, because a client can also read its response slowly.
                async with asyncio.timeout(SECONDS):
                    await self._exchange(reader, writer)
        finally:
            # `pop` with a default, because `_make_room` may have removed the connection.
            self._silent.pop(writer, None)
            self._answering.pop(writer, None)
            writer.close()

    def _make_room(self) -> None:
        """Close the oldest connection; a well-behaved client has had its response long ago."""
        group = self._silent or self._answering
        oldest = next(iter(group))
        del group[oldest]
        # Not `close`, which would wait until the client has read what is buffered.
        oldest.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from sidecar.rpc.ops_wire import HttpConnection, NotHttp  # noqa: PLC0415  at the first request; no start waits for h11

        wire = HttpConnection(LARGEST_REQUEST)
        try:
            # Shorter than the limit of the connection: an idle connection must not occupy its place for 5 s.
            async with asyncio.timeout(self._silence):
                request = await wire.request(reader)
        except NotHttp:
            # Still answered, because a person with a wrong tool should see why.
            page = BAD_REQUEST
        else:
            if request is None:
                return
            # Not there if `_make_room` has closed the connection meanwhile.
            if writer in self._silent:
                del self._silent[writer]
                self._answering[writer] = None
            page = await self._page(*request)
        writer.write(wire.answer(page.status, page.content_type, page.body))
        await writer.drain()

    async def _page(self, method: bytes, target: bytes, accept: bytes) -> Page:
        # Some probes add a parameter against caches.
        path = target.decode("ascii", "replace").partition("?")[0]
        render = self._pages.get(path)
        if render is None:
            return NOT_FOUND
        if method != b"GET":
            return NOT_ALLOWED
        try:
            return await render(accept.decode("latin-1"))
        except Exception as error:  # noqa: BLE001  a failing metric must not end the listener
            self._on_defect(path, error)
            return FAILED
