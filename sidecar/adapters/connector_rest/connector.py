"""The connector `rest`: calls data services over HTTP. Its error reports contain no text of a service or a user."""

import asyncio
from typing import Final

import httpcore

from sidecar.adapters.connector_rest.request_writer import body_of, headers_of
from sidecar.adapters.connector_rest.response_reader import reply_of
from sidecar.adapters.connector_rest.settings import RestSettings
from sidecar.adapters.http_client.endpoints import (
    address_of,
    is_plain_beyond,
    problem_with_endpoint,
    url_of,
    without_query,
)
from sidecar.adapters.http_client.pools import http_pools
from sidecar.adapters.token_exchange.exchange import TokenExchange
from sidecar.core.faults import Fault, remedy_for
from sidecar.policy.faults import errno_of
from sidecar.policy.protocols import EnricherCall, EnricherRefused, EnricherReply, RefusalKind

SETTING: Final = "the tool's `endpoint`"
OK: Final = 200


def fault_behind(error: Exception, endpoint: str) -> Fault:
    """Return the fault behind an exception of the HTTP client; without an errno, its class is the cause."""
    errno = errno_of(error)
    return Fault(
        without_query(endpoint), address_of(endpoint), errno or type(error).__name__, remedy_for(errno, SETTING)
    )


def with_status(reply: EnricherReply, status: int, endpoint: str) -> EnricherReply:
    """Return the reply, with the HTTP status added if the status is why there is no envelope."""
    if not isinstance(reply, EnricherRefused) or reply.kind is not RefusalKind.UNAVAILABLE or status == OK:
        return reply
    remedy = f"the service answered, but with no envelope: see its log, or correct {SETTING}"
    return EnricherRefused(reply.kind, Fault(without_query(endpoint), address_of(endpoint), f"HTTP {status}", remedy))


NO_ANSWER: Final = (
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ConnectionNotAvailable,
    OSError,
    UnicodeError,  # a host name that no resolver takes
)


UNENCRYPTED: Final = (
    "the `endpoint` is `http://` beyond this machine, so users' data would not be encrypted: use https://, or set "
    "`allow_remote` of the connector behind a mesh"
)
NEVER_SENT: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
"""Errors before the connection was open: no byte of the request was sent."""


class RestConnector:
    """Sends enricher calls over HTTP/1.1 with pooled connections.

    It makes one attempt per call, and uses no redirects, no proxies of the environment, no cookies (one user's
    session must not reach the next user's request) and no log line. The tool's `endpoint` is the only target;
    arguments cannot change it. Source: PC2-FR-9a, PC2-FR-12e, PC2-D-22, reliability promise 22.
    """

    def __init__(self, settings: RestSettings) -> None:
        """Begin without connections.

        Raises:
            OSError, TlsFilesProblem: files with certificates cannot be used.
        """
        self._allow_remote = settings.allow_remote
        self._max_body_bytes = settings.max_body_bytes
        # Only connecting has a limit of its own. The timeout of the call limits everything else.
        self._timeouts = {"connect": settings.connect_seconds}
        self._closed = False
        idle = settings.max_idle_connections, settings.idle_seconds
        self._pools = http_pools(settings.tls, settings.max_connections, *idle)
        self._exchange = TokenExchange(settings, self._pools) if settings.token_endpoint else None

    @property
    def needs_user_token(self) -> bool:
        """Whether it exchanges the tokens of users."""
        return self._exchange is not None

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send `call` once and return the envelope unopened, or why there is none.

        `call.timeout` limits the whole call, including the wait for a free connection.
        """
        # Before anything is sent: a call that cannot be sent must be known as unsent, because then it may be repeated.
        body = body_of(call)
        refusal = self._refusal_of(call)
        if body is None or refusal is not None:
            return EnricherRefused(refusal or RefusalKind.MALFORMED, sent=False)
        if not self._allow_remote and is_plain_beyond(call.endpoint):
            fault = Fault(without_query(call.endpoint), address_of(call.endpoint), remedy=UNENCRYPTED)
            return EnricherRefused(RefusalKind.UNAVAILABLE, fault, sent=False)
        try:
            # One limit around everything: the pool, the exchange of the token, the connection and the body.
            async with asyncio.timeout(call.timeout.total_seconds()):
                bearer = None if self._exchange is None else await self._exchange.bearer_for(call)
                if isinstance(bearer, EnricherRefused):
                    return bearer
                return await self._send(call, body, bearer)
        except TimeoutError:
            # Counts as sent: after a timeout it is unknown whether the service has acted.
            return EnricherRefused(RefusalKind.TIMEOUT)
        except NO_ANSWER as error:
            sent = not isinstance(error, NEVER_SENT)
            return EnricherRefused(RefusalKind.UNAVAILABLE, fault_behind(error, call.endpoint), sent)

    def _refusal_of(self, call: EnricherCall) -> RefusalKind | None:
        """Return why the call cannot be sent; None: it can."""
        if not call.principal:
            return RefusalKind.MISSING_PRINCIPAL
        is_unavailable = self._closed or problem_with_endpoint(call.endpoint) is not None
        return RefusalKind.UNAVAILABLE if is_unavailable else None

    async def _send(self, call: EnricherCall, body: bytes, bearer: str | None) -> EnricherReply:
        async with (
            self._pools.pool() as pool,
            pool.stream(
                "POST",
                url_of(call.endpoint),
                headers=[*headers_of(call).items(), *([] if bearer is None else [("authorization", bearer)])],
                content=body,
                extensions={"timeout": self._timeouts},
            ) as response,
        ):
            return with_status(await reply_of(response, self._max_body_bytes), response.status, call.endpoint)

    async def close(self) -> None:
        """Close all connections; calls that are still running end as `UNAVAILABLE`."""
        self._closed = True
        # The exchange shares the pools and closes them.
        await (self._exchange or self._pools).close()
