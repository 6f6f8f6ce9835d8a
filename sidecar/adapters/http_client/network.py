"""Limits the size of HTTP responses of data services, before the HTTP parser gets their bytes.

The parser skips any number of interim responses (1xx) and processes all headers that it has at once, and no other task
runs meanwhile. It therefore gets the headers in small slices, other tasks run before each slice, and the total size is
limited.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore

LARGEST_HEAD: Final = 16 * 1024
"""Maximum bytes of the status line, the headers and all interim responses before them."""
HEAD_SLICE: Final = 4 * 1024
"""Bytes that the parser gets at a time. The smallest interim response has 16 bytes, so a slice contains at most 256."""


class BoundedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections whose responses are limited (`BoundedStream`). For connection pools of httpcore."""

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
        """Connect to a service. Raises the exceptions of httpcore's own backend."""
        return BoundedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))


class BoundedStream(httpcore.AsyncNetworkStream):
    """One connection with a limit on the bytes that may still be received.

    Each request sets the limit to that of a response head. `expect_body` raises it by the limit of the body.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._room = LARGEST_HEAD
        self._slice = HEAD_SLICE

    def expect_body(self, most: int) -> None:
        """Allow `most` more bytes, after the head was received."""
        self._room += most
        # Small slices are needed only for heads. A body is read in pieces by `response_body.py`.
        self._slice = self._room

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Let other tasks run, then return received bytes.

        Raises:
            httpcore.RemoteProtocolError: more bytes were received than allowed.
        """
        if self._room <= 0:
            raise httpcore.RemoteProtocolError("the answer is longer than allowed")
        # Before the read and not after it: a cancellation at this point must not lose received bytes.
        await asyncio.sleep(0)
        received = await self._stream.read(min(max_bytes, self._slice, self._room), timeout)
        self._room -= len(received)
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send a part of a request."""
        # A connection carries one request at a time, so a new request ends the last response. The limit of the last
        # body must not apply to the next head.
        self._room, self._slice = LARGEST_HEAD, HEAD_SLICE
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
        """Close the connection."""
        await self._stream.aclose()
