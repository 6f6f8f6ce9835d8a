"""Reads and switches flags of Unleash over HTTP: reads with the client API, switches with the admin API."""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from sidecar.core.errors import StoreUnavailable
from sidecar.policy.protocols import FlagReport
from sidecar_flags_unleash.settings import UnleashSettings
from sidecar_flags_unleash.wire import MOST_BYTES, Feature, NotUnderstood, features_in, report_of, share_of
from subagents_tls.files import TlsFiles
from subagents_tls.pools import RotatingPool

LOG: Final = logging.getLogger("sidecar_flags_unleash")
OK, NOT_MODIFIED, NOT_FOUND, CONFLICT = 200, 304, 404, 409
TIMEOUT: Final = httpx.Timeout(2.0)
"""Seconds between two bytes of a response; the sidecar has a deadline for the whole operation."""
FEATURES: Final = "/api/client/features"
LONGEST_TOKEN: Final = 16 * 1024
DESCRIPTION: Final = "Gates a sub-agent; created and switched by the dispatch sidecar."


class UnleashUnreachable(Exception):
    """Unleash gave no valid answer. The text contains no token."""


class UnleashFlags:
    """The flag backend `unleash`. Tokens go only to the configured URL: no redirects, cookies or proxies are used."""

    def __init__(self, settings: UnleashSettings) -> None:
        """Create the backend, without connecting it.

        Raises:
            OSError, ssl.SSLError: the file of authorities cannot be read.
        """
        self._settings = settings
        self._etag = ""
        self._fetched = ""
        self._projects: Mapping[str, str] = {}
        files = TlsFiles(ca_file=settings.ca_file)
        self._clients = RotatingPool(files, _tls, self._opened, httpx.AsyncClient.aclose, LOG.warning)

    def _opened(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self._settings.url.rstrip("/"),
            headers={"accept": "application/json", "user-agent": "dispatch-sidecar"},
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
            verify=context,
            follow_redirects=False,
            trust_env=False,
            timeout=TIMEOUT,
        )

    async def fetch(self) -> FlagReport:
        """Read all flags. Raises `UnleashUnreachable`, `NotUnderstood`."""
        status, etag, body = await self._client_api()
        if status != OK:
            raise UnleashUnreachable(f"Unleash answered with HTTP status {status}")
        features = features_in(body, self._settings.environment)
        report = report_of(features)
        self._etag, self._fetched = etag, report.revision
        self._projects = {feature.name: feature.project for feature in features}
        return report

    async def changed(self) -> None:
        """Wait until the flags differ from those of the last fetch; an outage of Unleash is not a change."""
        while True:
            await asyncio.sleep(self._settings.poll_seconds)
            try:
                status, _, body = await self._client_api(self._etag)
                if status == OK and report_of(features_in(body, self._settings.environment)).revision != self._fetched:
                    return
            except (UnleashUnreachable, NotUnderstood):
                pass  # `fetch`, which the sidecar also calls on a timer, reports the failure

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag in the configured environment; create the flag if it is missing. Strategies do not change.

        Raises:
            StoreUnavailable: Unleash did not confirm the new state.
        """
        try:
            await self._switched(name, on)
        except (UnleashUnreachable, msgspec.MsgspecError) as problem:
            raise StoreUnavailable(f"Unleash did not switch {name}: {problem}") from None

    def edit_for(self, name: str, on: bool) -> str:
        """Return what a person must switch in Unleash; empty if an admin token lets the sidecar switch flags."""
        if self._settings.admin_token_file is not None:
            return ""
        there = f"environment {self._settings.environment} of {self._settings.url}"
        return f"Unleash, {there}: switch {name} {'on' if on else 'off'}"

    async def close(self) -> None:
        """Close all connections."""
        await self._clients.close()

    async def _switched(self, name: str, on: bool) -> None:
        project, step = self._projects.get(name, self._settings.project), "on" if on else "off"
        flags = f"/api/admin/projects/{quote(project, safe='')}/features"
        place = f"{flags}/{quote(name, safe='')}/environments/{quote(self._settings.environment, safe='')}"
        status, _ = await self._admin_api("POST", f"{place}/{step}")
        if status == NOT_FOUND:
            new = {"name": name, "type": "kill-switch", "description": DESCRIPTION}
            made, _ = await self._admin_api("POST", flags, new)
            if made not in {201, CONFLICT}:
                raise UnleashUnreachable(f"creating it was answered with HTTP status {made}")
            status, _ = await self._admin_api("POST", f"{place}/{step}")
        if status != OK:
            raise UnleashUnreachable(f"switching it was answered with HTTP status {status}")
        status, body = await self._admin_api("GET", place)
        now = msgspec.json.decode(body, type=Feature) if status == OK else None
        if now is None or now.enabled != on or (on and not share_of(now)):
            raise UnleashUnreachable(f"it is not {step} afterwards; look at its strategies")

    async def _client_api(self, etag: str = "") -> tuple[int, str, bytes]:
        headers = {"if-none-match": etag} if etag else {}
        response, body = await self._exchange("GET", FEATURES, self._settings.token_file, headers)
        return response.status_code, response.headers.get("etag", ""), body

    async def _admin_api(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        file = self._settings.admin_token_file
        if file is None:
            raise UnleashUnreachable("no admin_token_file is set")
        response, body = await self._exchange(method, path, file, {}, content)
        return response.status_code, body

    async def _exchange(
        self, method: str, path: str, token: Path, headers: Mapping[str, str], content: Mapping[str, Any] | None = None
    ) -> tuple[httpx.Response, bytes]:
        received, secret = b"", await asyncio.to_thread(_token_in, token)
        try:
            async with (
                self._clients.pool() as client,
                client.stream(method, path, json=content, headers={**headers, "authorization": secret}) as response,
            ):
                async for part in response.aiter_bytes():
                    received += part
                    if len(received) > MOST_BYTES:
                        raise UnleashUnreachable(f"Unleash sent more than {MOST_BYTES} bytes")
        except (httpx.HTTPError, httpx.StreamError, RuntimeError) as error:
            raise UnleashUnreachable(f"Unleash cannot be reached ({type(error).__name__})") from None
        return response, received


def _tls(files: TlsFiles) -> ssl.SSLContext:
    if files.ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    return ssl.create_default_context(cafile=files.ca_file)


def _token_in(file: Path) -> str:
    """Return the token. Raises `UnleashUnreachable`, whose text does not contain the content of the file."""
    try:
        with file.open("rb") as opened:
            token = opened.read(LONGEST_TOKEN).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnleashUnreachable(f"the token file {file} cannot be read ({type(error).__name__})") from None
    if not token or not token.isprintable() or " " in token:
        raise UnleashUnreachable(f"the token file {file} holds no token")
    return token
