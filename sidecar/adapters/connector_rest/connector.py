"""Connector `rest`."""

import asyncio
import ssl
from typing import Final

import certifi
import httpcore

from sidecar.adapters.connector_rest.endpoints import problem_with_endpoint, url_of
from sidecar.adapters.connector_rest.faults import fault_behind, with_status
from sidecar.adapters.connector_rest.incoming import reply_of
from sidecar.adapters.connector_rest.network import BoundedBackend
from sidecar.adapters.connector_rest.outgoing import body_of, headers_of
from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.policy.protocols import EnricherCall, EnricherRefused, EnricherReply, RefusalKind

NO_ANSWER: Final = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ConnectionNotAvailable,
    OSError,
    UnicodeError,  # a host name that no resolver takes
)


class RestConnector:
    """Carries enricher calls over HTTP/1.1 with pooled connections.

    One attempt for each call, no redirects, no proxies from the environment, no cookies (one user's session must not
    meet the next user's request), no log line of its own. Where it goes is the tool's `endpoint`; arguments cannot
    change that. Source: PC2-FR-9a, PC2-FR-12e, PC2-D-22, reliability promise 22.
    """

    def __init__(self, settings: RestSettings) -> None:
        """Connect to nothing yet.

        Raises:
            OSError: `ca_file` cannot be read or is not PEM.
        """
        self._max_body_bytes = settings.max_body_bytes
        self._timeouts = {"connect": settings.connect_seconds}
        self._closed = False
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(cafile=settings.ca_file or certifi.where()),
            max_connections=settings.max_connections,
            max_keepalive_connections=settings.max_idle_connections,
            keepalive_expiry=settings.idle_seconds,
            network_backend=BoundedBackend(),
        )

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send `call` once and return the envelope unopened, or why there is none.

        Everything, waiting for a free connection included, happens within `call.timeout`.
        """
        if not call.principal:
            return EnricherRefused(RefusalKind.MISSING_PRINCIPAL)
        body = body_of(call)
        if body is None:
            return EnricherRefused(RefusalKind.MALFORMED)
        if self._closed or problem_with_endpoint(call.endpoint) is not None:
            return EnricherRefused(RefusalKind.UNAVAILABLE)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                return await self._exchange(call, body)
        except TimeoutError:
            return EnricherRefused(RefusalKind.TIMEOUT)
        except NO_ANSWER as error:
            return EnricherRefused(RefusalKind.UNAVAILABLE, fault_behind(error, call.endpoint))

    async def _exchange(self, call: EnricherCall, body: bytes) -> EnricherReply:
        async with self._pool.stream(
            "POST",
            url_of(call.endpoint),
            headers=list(headers_of(call).items()),
            content=body,
            extensions={"timeout": self._timeouts},
        ) as response:
            return with_status(await reply_of(response, self._max_body_bytes), response.status, call.endpoint)

    async def close(self) -> None:
        """Close all connections; calls that are still running end as `UNAVAILABLE`."""
        self._closed = True
        await self._pool.aclose()
