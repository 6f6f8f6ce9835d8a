"""Exchanges users' tokens for tokens of a data service at a token endpoint (RFC 8693), for one connector.

The data service then identifies the user by a token of an issuer that it trusts, and need not trust the sidecar.
"""

import asyncio
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import httpcore
from msgspec import Struct

from sidecar.adapters.http_client.endpoints import address_of, url_of, without_query
from sidecar.adapters.http_client.response_body import body_of_response
from sidecar.adapters.token_exchange.settings import TokenExchangeSettings
from sidecar.core.decoding import DecodeError, from_ascii, from_json, from_utf8
from sidecar.core.faults import Fault
from sidecar.core.user_tokens import UserToken
from sidecar.policy.protocols import EnricherCall, EnricherRefused, RefusalKind
from subagents_tls.pools import RotatingPool

GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  the name of a type
JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
OK: Final = 200
LARGEST_ANSWER: Final = 64 * 1024
"""The most bytes of a response."""
LONGEST_TOKEN: Final = 8 * 1024
"""The most characters of a token: it becomes a header, and services accept 8 to 16 KiB of headers."""
MOST_KEPT: Final = 1024
"""The most cached tokens. A further one replaces the least recently used one, which is exchanged again if needed."""
MARGIN: Final = 30.0
"""Seconds before its expiry from which a token is no longer used; at most a tenth of its life."""

Key = bytes
"""Digest of the user's token, the audience and the scope."""


class ExchangeFailed(Exception):
    """There is no token for the data service. The message has the cause, and no text of the token endpoint."""


class _Answer(Struct, frozen=True):
    access_token: str
    token_type: str
    issued_token_type: str
    expires_in: float = 0.0


class _Exchanged(Struct, frozen=True):
    token: str
    until: float


class TokenExchange:
    """Gets tokens, and keeps each until shortly before its expiry. Calls that need the same token share one exchange.

    Args:
        settings: of the connector, with a `token_endpoint`.
        pools: connections to the token endpoint.
        now: monotonic seconds.
        most: the most cached tokens.

    Raises:
        OSError, DecodeError: the file with the client's secret cannot be read.
    """

    def __init__(
        self,
        settings: TokenExchangeSettings,
        pools: RotatingPool[httpcore.AsyncConnectionPool],
        now: Callable[[], float] = time.monotonic,
        most: int = MOST_KEPT,
    ) -> None:
        self._endpoint, self._seconds = settings.token_endpoint or "", settings.token_seconds
        self._audience, self._scope = settings.token_audience or "", settings.token_scope or ""
        _client_authorization(settings)  # a missing secret prevents the start
        self._settings = settings
        self._pools, self._now, self._most = pools, now, most
        self._kept: OrderedDict[Key, _Exchanged] = OrderedDict()
        self._running: dict[Key, asyncio.Task[_Exchanged]] = {}

    async def bearer_for(self, call: EnricherCall) -> str | EnricherRefused:
        """Return the `authorization` that proves the user to the data service, or why there is none."""
        if call.user_token is None:
            return EnricherRefused(RefusalKind.USER_TOKEN_GONE, sent=False)
        try:
            return f"Bearer {await self.token_for(call.user_token)}"
        except ExchangeFailed as failed:
            # `sent=False`: the data service has not been called, so the gateway may repeat even a call that changes
            # something.
            fault = Fault(without_query(self._endpoint), address_of(self._endpoint), str(failed))
            return EnricherRefused(RefusalKind.EXCHANGE_FAILED, fault, sent=False)

    async def token_for(self, user: UserToken) -> str:
        """Return the token that the data service gets. Raises `ExchangeFailed`."""
        key = self._key(user)
        kept = self._kept.get(key)
        if kept is not None and self._now() < kept.until:
            self._kept.move_to_end(key)
            return kept.token
        running = self._running.get(key)
        if running is None:
            # No await since the look-up: two calls for one user cannot both start an exchange.
            running = self._running[key] = asyncio.create_task(self._exchanged(key, self._ask(user)))
        try:
            # The exchange is for others, too: an abandoned call must not end the exchange of the others.
            return (await asyncio.shield(running)).token
        except asyncio.CancelledError:
            # Only `close` cancels the exchange. A cancelled caller must see its own cancellation, not a failure.
            if running.cancelled() and not _being_cancelled():
                raise ExchangeFailed("the connector is closed") from None
            raise

    async def close(self) -> None:
        """End exchanges that run, close the connections, and forget all tokens."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._pools.close()
        self._kept.clear()

    def _key(self, user: UserToken) -> Key:
        # A digest, so that the keys of the dictionary contain no user's token.
        return sha256("\0".join((user.value, self._audience, self._scope)).encode()).digest()

    async def _exchanged(self, key: Key, ask: Coroutine[Any, Any, _Answer]) -> _Exchanged:
        """Await one exchange, cache its token, and return it. Raises `ExchangeFailed`."""
        try:
            async with asyncio.timeout(self._seconds):
                answer = await ask
        except TimeoutError:
            # Before the next clause: `TimeoutError` is an `OSError`.
            raise ExchangeFailed("the token endpoint does not answer in time") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            raise ExchangeFailed(f"the token endpoint cannot be reached: {type(error).__name__}") from None
        finally:
            # Also after a failure, so that the next call tries again. Callers that wait already get this failure.
            del self._running[key]
        lifetime = answer.expires_in
        exchanged = _Exchanged(answer.access_token, self._now() + lifetime - min(MARGIN, lifetime / 10))
        # An answer without a lifetime may expire at once, so it is used for the waiting calls only.
        if lifetime > 0:
            self._kept[key] = exchanged
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return exchanged

    async def _ask(self, user: UserToken) -> _Answer:
        form = {
            "grant_type": GRANT,
            "subject_token": user.value,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
            "audience": self._audience,
            **({"scope": self._scope} if self._scope else {}),
        }
        url = url_of(self._endpoint)
        try:  # at each exchange, so that a replaced secret needs no restart
            authorization = await asyncio.to_thread(_client_authorization, self._settings)
        except (OSError, ValueError) as error:
            raise ExchangeFailed(f"the client's secret cannot be read: {type(error).__name__}") from None
        headers = [
            ("host", from_ascii(url.host) + (f":{url.port}" if url.port else "")),
            ("accept", "application/json"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("authorization", authorization),
        ]
        async with (
            self._pools.pool() as pool,
            pool.stream("POST", url, headers=headers, content=urlencode(form).encode()) as response,
        ):
            if response.status != OK:
                raise ExchangeFailed(f"the token endpoint answers HTTP {response.status}")
            body = await body_of_response(response, LARGEST_ANSWER)
        return _parse_answer(body if isinstance(body, bytes) else b"")


def _parse_answer(body: bytes) -> _Answer:
    try:
        answer = from_json(body, _Answer)
    except DecodeError:
        raise ExchangeFailed("the token endpoint's answer is not one of RFC 8693") from None
    token = answer.access_token
    # The token becomes a part of a header. A line end in it would begin another header.
    usable = 0 < len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable() and " " not in token
    bearer = answer.token_type.lower() == "bearer" and answer.issued_token_type in {ACCESS_TOKEN, JWT}
    if not (usable and bearer and 0 <= answer.expires_in < float("inf")):
        raise ExchangeFailed("the token endpoint's token is not an access token for `Authorization: Bearer`")
    return answer


def _client_authorization(settings: TokenExchangeSettings) -> str:
    """Return the `authorization` of the sidecar as a client of the token endpoint. Source: RFC 6749, section 2.3.1."""
    secret = from_utf8(Path(settings.token_client_secret_file or "").read_bytes()).strip()
    pair = f"{quote_plus(settings.token_client_id or '')}:{quote_plus(secret)}"
    return f"Basic {from_ascii(b64encode(pair.encode()))}"


def _being_cancelled() -> bool:
    # `cancelling` counts the requests to cancel this task. The end of the awaited exchange leaves it at 0.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
