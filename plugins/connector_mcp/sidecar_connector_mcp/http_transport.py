"""Streamable HTTP: the transport of the SDK over an HTTP client that limits the size of responses.

The client follows only redirects that the SDK allows within one origin, uses no proxies from the environment, and
stores no cookies. It does not open the stream for unrequested messages of the server: the connector does not use them,
and the stream would keep one more connection open per user.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import LAST_EVENT_ID, MCP_SESSION_ID, streamable_http_client
from typing_extensions import override

from sidecar_connector_mcp.wire import Wire

NOT_OFFERED: Final = 405
"""HTTP status with which a server declines the stream for unrequested messages."""
ERRORS_FROM: Final = 400
"""Lowest HTTP status of an error."""


class TooMuch(httpx2.StreamError):
    """A response is too large, or is compressed although the request did not allow it."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, wire: Wire) -> None:
        self._stream, self._wire = stream, wire

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for piece in self._stream:
            received += len(piece)
            self._wire.heard += 1
            if received > self._wire.most_bytes:
                self._wire.overflow()
                raise TooMuch("the server sent too much")
            yield piece

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, limits the size of the responses, and notes in `Wire` what it receives."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, wire: Wire) -> None:
        self._inner, self._wire = inner, wire

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises the exceptions of the inner transport, and `TooMuch`."""
        if request.method == "GET" and LAST_EVENT_ID not in request.headers:
            return httpx2.Response(NOT_OFFERED, request=request)
        response = await self._inner.handle_async_request(request)
        self._wire.heard += 1
        if response.status_code >= ERRORS_FROM and request.method == "POST":
            self._wire.refused(response.status_code, in_session=MCP_SESSION_ID in request.headers)
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream) or "content-encoding" in response.headers:
            await response.aclose()
            self._wire.overflow()
            raise TooMuch("the server compressed its answer unasked")
        response.stream = _Bounded(stream, self._wire)
        return response

    @override
    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


@asynccontextmanager
async def over_http(
    url: str, headers: Mapping[str, str], wire: Wire, connect_seconds: float
) -> AsyncIterator[TransportStreams]:
    """Open a transport to a server.

    Args:
        url: endpoint of the server.
        headers: headers of every request: the user of the session, and the credential.
        wire: receives the state of the connection.
        connect_seconds: maximum time to open one connection.
    """
    client = httpx2.AsyncClient(
        transport=BoundedTransport(httpx2.AsyncHTTPTransport(trust_env=False), wire),
        headers={**headers, "accept-encoding": "identity", "user-agent": "dispatch-sidecar"},
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        # No read timeout: each call has the timeout of its tool.
        timeout=httpx2.Timeout(None, connect=connect_seconds),
        trust_env=False,
    )
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=None) as streams:
        yield streams
