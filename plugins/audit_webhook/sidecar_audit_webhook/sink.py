"""Sends each audit event in a POST request of its own, in order. An event is taken if the receiver answers 2xx."""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, cast

import httpx

from sidecar.policy.audit import AuditEntry, SinkUnavailable
from sidecar_audit_webhook.events import CONTENT_TYPE, body_of, message_id_of, type_of
from sidecar_audit_webhook.settings import WebhookSettings
from sidecar_audit_webhook.signing import Secrets
from subagents_tls.files import TlsFiles
from subagents_tls.pools import RotatingPool

LOG: Final = logging.getLogger("sidecar_audit_webhook")
MOST_READ: Final = 16 * 1024
"""Maximum bytes of an answer that are read, to reuse the connection; after a longer answer the connection is closed."""
HINTS: Final = {
    401: "does it know the secret of `secret_file`?",
    403: "does it know the secret of `secret_file`?",
    404: "is `url` right?",
    410: "it wants no events any more; if that is so, take this sink out of `audit.sinks`",
}


class WebhookSink:
    """The audit sink `webhook`. Events go only to the configured URL: no redirects, cookies or proxies are used.

    Args:
        settings: the settings of this instance.
        now: returns seconds since 1970; the signature of each request contains the time of sending.
        monotonic: returns seconds of a monotonic clock, by which the file of secrets is checked for changes.

    Raises:
        FilesProblem, OSError, ssl.SSLError: the file of secrets, or a TLS file, cannot be used.
    """

    def __init__(
        self,
        settings: WebhookSettings,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the sink, without connecting it."""
        self._settings = settings
        self._now = now
        self._secrets = Secrets(settings.secret_file, LOG.warning, monotonic)
        self._clients = RotatingPool(settings.tls, _tls, self._opened, httpx.AsyncClient.aclose, LOG.warning)
        self._delivered: frozenset[str] = frozenset()

    def _opened(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        settings = self._settings
        return httpx.AsyncClient(
            headers={"content-type": CONTENT_TYPE, "user-agent": "sidecar-audit-webhook"},
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
            verify=context,
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(settings.timeout_seconds, connect=settings.connect_seconds),
        )

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Send the entries in order. After a failure, the next batch continues with the first entry that is missing.

        Raises:
            SinkUnavailable: the receiver has not accepted an entry; later entries were not sent.
        """
        self._delivered &= {entry.event_id for entry in entries}
        for entry in entries:
            if entry.event_id not in self._delivered and self._settings.wants(type_of(entry.fields)):
                await self._deliver(entry)
                self._delivered |= {entry.event_id}
        self._delivered = frozenset()  # the sidecar marks the whole batch as exported and never sends it again

    async def close(self) -> None:
        """Close all connections."""
        await self._clients.close()

    async def _deliver(self, entry: AuditEntry) -> None:
        source = self._settings.source
        body, message_id, at = body_of(entry, source), message_id_of(source, entry.event_id), int(self._now())
        headers = {
            "webhook-id": message_id,
            "webhook-timestamp": str(at),
            "webhook-signature": self._secrets.signature(message_id, at, body),
        }
        try:
            status = await self._status_of(body, headers)
        except (httpx.TimeoutException, TimeoutError):
            limit = f"{self._settings.timeout_seconds:g} s"
            raise SinkUnavailable(f"the receiver did not answer within {limit}") from None
        except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
            raise SinkUnavailable(f"the receiver cannot be reached ({type(error).__name__})") from None
        if not httpx.codes.is_success(status):
            raise SinkUnavailable(f"the receiver answered {entry.event_id} with HTTP status {_said(status)}")

    async def _status_of(self, body: bytes, headers: dict[str, str]) -> int:
        """Send a request and return the status, which counts as soon as it is there, whatever becomes of the rest."""
        status = 0
        try:
            async with (
                asyncio.timeout(self._settings.timeout_seconds),  # of the whole; httpx's own are between two bytes
                self._clients.pool() as client,
                client.stream("POST", self._settings.url, content=body, headers=headers) as response,
            ):
                status = response.status_code
                await _drained(response)
        except (httpx.HTTPError, httpx.StreamError, TimeoutError):
            if not status:
                raise
        return status


async def _drained(response: httpx.Response) -> None:
    """Read a short answer, undecoded: nothing in it matters."""
    read = 0
    raw = cast("AsyncGenerator[bytes, None]", response.aiter_raw())  # it is one; it has to be closed if it is left
    async with aclosing(raw) as parts:
        async for part in parts:
            read += len(part)
            if read > MOST_READ:
                return


def _said(status: int) -> str:
    hint = "redirects are not followed; is `url` right?" if httpx.codes.is_redirect(status) else HINTS.get(status)
    return str(status) if hint is None else f"{status}: {hint}"


def _tls(files: TlsFiles) -> ssl.SSLContext:
    if not files.all:
        return httpx.create_ssl_context(trust_env=False)
    context = ssl.create_default_context(cafile=files.ca_file)
    if files.certificate_file is not None:
        context.load_cert_chain(files.certificate_file, files.key_file)
    return context
