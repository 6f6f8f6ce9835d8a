"""The HTTP client: no redirects, no proxies from the environment, no cookies, and bounded answers."""

from collections.abc import AsyncIterator
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
from typing_extensions import override

from sidecar_runner_a2a.settings import A2aSettings


class TooMuch(httpx.TransportError):
    """A response is larger than allowed, or is compressed although that was not asked for."""


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, most: int) -> None:
        self._stream, self._most = stream, most

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for piece in self._stream:
            received += len(piece)
            if received > self._most:
                raise TooMuch(f"more than {self._most} bytes")
            yield piece

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


class BoundedTransport(httpx.AsyncBaseTransport):
    """Carries requests and bounds the responses."""

    def __init__(self, inner: httpx.AsyncBaseTransport, most: int) -> None:
        self._inner, self._most = inner, most

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raises what the client's own transport raises, and `TooMuch`."""
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        if not isinstance(stream, httpx.AsyncByteStream) or "content-encoding" in response.headers:
            await response.aclose()
            raise TooMuch("a compressed answer, unasked")
        response.stream = _Bounded(stream, self._most)
        return response

    @override
    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


def http_client(settings: A2aSettings) -> httpx.AsyncClient:
    """Return a client. How long an answer may take is for the attempt's own deadline to say."""
    return httpx.AsyncClient(
        transport=BoundedTransport(httpx.AsyncHTTPTransport(trust_env=False), settings.max_answer_bytes),
        headers={"accept-encoding": "identity", "user-agent": "dispatch-sidecar"},
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None),  # how many attempts run at once is the sidecar's to bound
        timeout=httpx.Timeout(None, connect=settings.connect_seconds),
        follow_redirects=False,
        trust_env=False,
    )
