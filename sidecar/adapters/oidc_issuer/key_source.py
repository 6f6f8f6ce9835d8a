"""Holds the public keys of a token issuer in memory, for the verification of tokens.

A background task fetches the keys. While the issuer does not answer, the last keys stay in use for a limited time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx

from sidecar.adapters.oidc_issuer.keys import IssuerKeys, KeysUnusable, keys_of
from sidecar.operations.ports import Clock

MOST_BYTES: Final = 256 * 1024
"""Maximum size of the issuer's answer, a JWKS (set of keys), in bytes."""
FETCH_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 10.0
"""Minimum seconds between two fetches: callers with unknown key ids must not flood the issuer with requests."""

Fetch = Callable[[], Awaitable[bytes]]
Report = Callable[[str, str], None]
"""Receives the kind and the details of a problem, for operators. Must not raise or wait."""


class KeySource:
    """The current keys, and the loop that refreshes them.

    Args:
        fetch: returns the JWKS as bytes.
        algorithms: the permitted signature algorithms; keys for others are ignored.
        clock: measures the age of the keys.
        refresh: the usual time between two fetches.
        kept_for: maximum age of the keys. Older keys are not used, so that tokens are refused until a fetch succeeds.
        report: called when a fetch fails.
    """

    def __init__(
        self,
        fetch: Fetch,
        algorithms: frozenset[str],
        clock: Clock,
        *,
        refresh: timedelta,
        kept_for: timedelta,
        report: Report,
    ) -> None:
        self._fetch = fetch
        self._algorithms = algorithms
        self._clock = clock
        self._refresh, self._kept_for = refresh.total_seconds(), kept_for.total_seconds()
        self._report = report
        self._keys: IssuerKeys | None = None
        self._fetched_at = 0.0
        self._wanted = asyncio.Event()

    def current(self) -> IssuerKeys | None:
        """Return the keys from memory; None: there are none, or they are too old."""
        if self._keys is not None and self._clock.monotonic() - self._fetched_at >= self._kept_for:
            return None
        return self._keys

    def miss(self) -> None:
        """Request an early fetch, because a token names an unknown key: the issuer may have new keys."""
        self._wanted.set()

    @property
    def wanted(self) -> bool:
        """Whether the next fetch is due without waiting for the usual interval."""
        return self._wanted.is_set()

    async def run(self) -> None:
        """Fetch the keys periodically, until cancelled. The supervisor restarts this loop."""
        while True:
            await self.look()
            # Always the full time, so that `miss` cannot cause more frequent requests.
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                async with asyncio.timeout(max(0.0, self._refresh - AGAIN_SECONDS)):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def look(self) -> None:
        """Fetch the keys once. If the result is unusable, the present keys stay in use."""
        # Cleared before the fetch: the result may lack a key that is missed during the fetch, so another must follow.
        self._wanted.clear()
        # The age counts from the request, not from the answer: in between, the issuer may have withdrawn a key.
        requested_at = self._clock.monotonic()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                keys = keys_of(await self._fetch(), self._algorithms)
        except (KeysUnusable, OSError, TimeoutError, httpx.HTTPError) as error:
            self._report("issuer_keys_unusable", f"{type(error).__name__}: {error}"[:200])
            return
        self._keys, self._fetched_at = keys, requested_at


def fetching(where: Path | str) -> Fetch:
    """Return a function that fetches a JWKS from a file or a URL."""
    if isinstance(where, Path):
        return lambda: asyncio.to_thread(_read, where)
    return lambda: _get(where)


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        text = opened.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise KeysUnusable(f"it is over {MOST_BYTES} bytes")
    return text


async def _get(url: str) -> bytes:
    # Without redirects and without proxies of the environment: either could lead to keys of an attacker. Without
    # compression, because a small compressed answer can be huge.
    async with (
        httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=FETCH_SECONDS) as client,
        client.stream("GET", url, headers={"accept": "application/json", "accept-encoding": "identity"}) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            raise KeysUnusable(f"the answer has status {answer.status_code}")
        text = b""
        # Counted as it is received, because a content-length may be absent or wrong.
        async for part in answer.aiter_raw():
            text += part
            if len(text) > MOST_BYTES:
                raise KeysUnusable(f"it is over {MOST_BYTES} bytes")
        return text
