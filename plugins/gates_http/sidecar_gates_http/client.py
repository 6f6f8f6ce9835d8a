"""Asks a gate service over HTTP: one POST for a question, and again only if the connection failed."""

import asyncio
import logging
import ssl
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Final

import httpx

from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable
from sidecar_gates_http.settings import HttpGateSettings
from sidecar_gates_http.wire import MOST_BYTES, answer_in, body_of, idempotency_key_of
from subagents_tls.files import TlsFiles
from subagents_tls.pools import RotatingPool

LOG: Final = logging.getLogger("sidecar_gates_http")
OK: Final = 200
LONGEST_TOKEN: Final = 16 * 1024

CONNECTION_FAILED: Final = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout, httpx.ProxyError)
"""Failures without an answer, after which the client retries. It does not retry after a timeout."""


class HttpGates:
    """The gate client `http`. Questions go only to the configured URL: no redirects, cookies or proxies are used."""

    def __init__(self, settings: HttpGateSettings) -> None:
        """Create the client, without connecting it.

        Raises:
            OSError, ssl.SSLError: a TLS file cannot be read.
        """
        self._settings = settings
        self._clients = RotatingPool(settings.tls, _tls, self._opened, httpx.AsyncClient.aclose, LOG.warning)

    def _opened(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        settings = self._settings
        return httpx.AsyncClient(
            headers={"accept": "application/json", "content-type": "application/json", "user-agent": "sidecar-gates"},
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
            verify=context,
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(settings.timeout_seconds, connect=settings.connect_seconds),
        )

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Return the answer of the gate service; retry after a failed connection, as often as the settings allow.

        Raises:
            GateUnavailable: the gate service gave no valid answer.
        """
        headers = {"idempotency-key": idempotency_key_of(question), **await self._authorization()}
        body = body_of(question)
        for attempt in range(1, self._settings.attempts + 1):
            try:
                return answer_in(await self._exchange(body, headers))
            except CONNECTION_FAILED as error:
                if attempt == self._settings.attempts:
                    raise GateUnavailable(
                        f"the gate service cannot be reached ({type(error).__name__}, {attempt} attempts)"
                    ) from None
            except (httpx.TimeoutException, TimeoutError):
                raise GateUnavailable(
                    f"the gate service did not answer within {self._settings.timeout_seconds:g} s"
                ) from None
            except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
                raise GateUnavailable(f"the gate service could not be asked ({type(error).__name__})") from None
            await asyncio.sleep(self._settings.wait_seconds)
        raise GateUnavailable("no attempt is allowed")

    async def close(self) -> None:
        """Close all connections."""
        await self._clients.close()

    async def _exchange(self, body: bytes, headers: dict[str, str]) -> bytes:
        endpoint = self._settings.endpoint
        received = b""
        async with (
            asyncio.timeout(self._settings.timeout_seconds),  # of the whole; httpx's own limits are between two bytes
            self._clients.pool() as client,
            client.stream("POST", endpoint, content=body, headers=headers) as response,
        ):
            if response.status_code != OK:
                raise GateUnavailable(f"the gate service answered with HTTP status {response.status_code}")
            async for part in response.aiter_bytes():
                received += part
                if len(received) > MOST_BYTES:
                    raise GateUnavailable(f"the gate service sent more than {MOST_BYTES} bytes")
        return received

    async def _authorization(self) -> dict[str, str]:
        if self._settings.token_file is None:
            return {}
        return {"authorization": f"Bearer {await asyncio.to_thread(_token_in, self._settings.token_file)}"}


def _token_in(file: Path) -> str:
    """Return the token. Raises `GateUnavailable`, whose text does not contain the content of the file."""
    try:
        with file.open("rb") as opened:
            token = opened.read(LONGEST_TOKEN).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise GateUnavailable(f"the token file cannot be read ({type(error).__name__})") from None
    if not token or not token.isprintable() or " " in token:
        raise GateUnavailable("the token file holds no token")
    return token


def _tls(files: TlsFiles) -> ssl.SSLContext:
    if not files.all:
        return httpx.create_ssl_context(trust_env=False)
    context = ssl.create_default_context(cafile=files.ca_file)
    if files.certificate_file is not None:
        context.load_cert_chain(files.certificate_file, files.key_file)
    return context
