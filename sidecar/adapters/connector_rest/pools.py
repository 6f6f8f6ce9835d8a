"""The connections of connector `rest`: one pool, and another one after certificates have changed."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import certifi
import httpcore

from sidecar.adapters.connector_rest.network import BoundedBackend
from sidecar.adapters.connector_rest.settings import RestSettings
from subagents_tls.files import TlsFiles, WatchedFiles


@cache
def public_context() -> ssl.SSLContext:
    """Return what checks certificates of the public authorities; made once, for that takes 20 ms."""
    return ssl.create_default_context(cafile=certifi.where())


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return what checks certificates, and shows one's own.

    Raises:
        OSError: a file cannot be read or is not PEM.
    """
    if not files.all:
        return public_context()
    context = ssl.create_default_context(cafile=str(files.ca_file or certifi.where()))
    if files.certificate_file is not None and files.key_file is not None:
        context.load_cert_chain(files.certificate_file, files.key_file, password=lambda: b"")
    return context


class _Pool:
    """Connections under one set of certificates, and how many calls use them."""

    __slots__ = ("calls", "connections", "number")

    def __init__(self, connections: httpcore.AsyncConnectionPool, number: int) -> None:
        self.connections = connections
        self.number = number
        self.calls = 0


class Pools:
    """The pool for new calls. One with former certificates is closed after its last call.

    Raises:
        OSError, TlsFilesProblem: files cannot be used.
    """

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._watched = WatchedFiles(settings.tls) if settings.tls.all else None
        self._changing = asyncio.Lock()
        self._pool = _Pool(self._opened(tls_context(settings.tls)), 1)

    @asynccontextmanager
    async def pool(self) -> AsyncIterator[httpcore.AsyncConnectionPool]:
        """Lend the connections for one call."""
        if self._watched is not None and self._watched.current().number != self._pool.number:
            await self._follow(self._watched)
        pool = self._pool
        pool.calls += 1
        try:
            yield pool.connections
        finally:
            pool.calls -= 1
            if pool is not self._pool and pool.calls == 0:
                await pool.connections.aclose()

    async def close(self) -> None:
        """Close the connections; calls on them end."""
        await self._pool.connections.aclose()

    async def _follow(self, watched: WatchedFiles) -> None:
        """Make a pool with the new certificates. Other calls go on with the former one as long as that takes."""
        if self._changing.locked():
            return
        async with self._changing:
            number = watched.current().number
            try:
                context = await asyncio.to_thread(tls_context, self._settings.tls)
            except OSError:
                return  # replaced again meanwhile: the next call tries again
            former, self._pool = self._pool, _Pool(self._opened(context), number)
        if former.calls == 0:
            await former.connections.aclose()

    def _opened(self, context: ssl.SSLContext) -> httpcore.AsyncConnectionPool:
        settings = self._settings
        return httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=settings.max_connections,
            max_keepalive_connections=settings.max_idle_connections,
            keepalive_expiry=settings.idle_seconds,
            network_backend=BoundedBackend(),
        )
