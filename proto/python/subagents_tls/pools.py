"""Connections of an HTTP client: one pool, and another one after the files of its certificates have changed."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from subagents_tls.files import TlsFiles, WatchedFiles

Pool = TypeVar("Pool")


class _Lent(Generic[Pool]):
    """Connections under one set of certificates, and how many calls use them."""

    __slots__ = ("calls", "number", "pool")

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool = pool
        self.number = number
        self.calls = 0


class RotatingPool(Generic[Pool]):
    """Lends the pool for new calls. One with former certificates is closed after its last call.

    Args:
        files: of the certificates; without any, there is one pool for good.
        context: what checks certificates, and shows one's own; called in a thread after a change.
        opened: makes a pool.
        closed: closes one.
        report: told why new files are not used.

    Raises:
        OSError, TlsFilesProblem: files cannot be used.
    """

    def __init__(
        self,
        files: TlsFiles,
        context: Callable[[TlsFiles], ssl.SSLContext],
        opened: Callable[[ssl.SSLContext], Pool],
        closed: Callable[[Pool], Awaitable[None]],
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._context, self._opened, self._closed = context, opened, closed
        self._watched = WatchedFiles(files, report) if files.all else None
        self._changing = asyncio.Lock()
        self._lent = _Lent(opened(context(files)), 1)

    @asynccontextmanager
    async def pool(self) -> AsyncIterator[Pool]:
        """Lend the connections for one call."""
        if self._watched is not None and self._watched.current().number != self._lent.number:
            await self._follow(self._watched)
        lent = self._lent
        lent.calls += 1
        try:
            yield lent.pool
        finally:
            lent.calls -= 1
            if lent is not self._lent and lent.calls == 0:
                await self._closed(lent.pool)

    async def close(self) -> None:
        """Close the connections; calls on them end."""
        await self._closed(self._lent.pool)

    async def _follow(self, watched: WatchedFiles) -> None:
        """Make a pool with the new certificates. Other calls use the former one for as long as that takes."""
        if self._changing.locked():
            return
        async with self._changing:
            number = watched.current().number
            try:
                context = await asyncio.to_thread(self._context, self._files)
            except OSError:
                return  # replaced again meanwhile: the next call tries again
            former, self._lent = self._lent, _Lent(self._opened(context), number)
        if former.calls == 0:
            await self._closed(former.pool)
