"""Limits the data of HTTP responses of data services before an HTTP parser sees it.

The parser skips any number of interim responses (1xx) and processes all headers at once, without yielding to the
event loop. Headers are therefore passed in small slices, with a yield before each, and the number of slices is
limited.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore

LARGEST_HEAD: Final = 16 * 1024
"""The most bytes of status line, headers and all interim responses before them."""
HEAD_SLICE: Final = 4 * 1024
"""Bytes that the parser gets at a time. The smallest interim response has 16 bytes, so a slice has at most 256."""


class BoundedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections that are `BoundedStream`s."""

    def __init__(self) -> None:
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> "BoundedStream":
        """Connect; raises what httpcore's own backend raises."""
        return BoundedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))


class BoundedStream(httpcore.AsyncNetworkStream):
    """One connection. Each request allows the bytes of one response head; `expect_body` allows those of the body."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._room = LARGEST_HEAD
        self._slice = HEAD_SLICE

    def expect_body(self, most: int) -> None:
        """Allow `most` more bytes after the head."""
        self._room += most
        # Only the parser of heads needs small slices; `most` limits the body.
        self._slice = self._room

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the received bytes, after yielding to the event loop.

        Raises:
            httpcore.RemoteProtocolError: more bytes were received than allowed.
        """
        if self._room <= 0:
            raise httpcore.RemoteProtocolError("the answer is longer than allowed")
        # Not after the read: received bytes must not be lost if this task is cancelled at the yield.
        await asyncio.sleep(0)
        received = await self._stream.read(min(max_bytes, self._slice, self._room), timeout)
        self._room -= len(received)
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send a part of a request."""
        self._room, self._slice = LARGEST_HEAD, HEAD_SLICE
        # A connection carries one request at a time, so bytes that are sent belong to the next response. The limits of
        # the last body must not count for its head.
        await self._stream.write(buffer, timeout)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "BoundedStream":
        """Return the same connection with TLS and the same limits."""
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return a property of the connection for httpcore, such as whether it is readable."""
        return self._stream.get_extra_info(info)

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()
