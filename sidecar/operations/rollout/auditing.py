"""Reads the audit: what is there, then each new row; and what gates last said of each definition."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.errors import AdmissionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.events import Happening, RolloutEvent
from sidecar.operations.rollout.ports import AuditQuery, AuditRow, RolloutStore

PAGE: Final = 200
POLL: Final = timedelta(seconds=1)
MOST_WATCHERS: Final = 32
SOON: Final = timedelta(seconds=5)


async def all_rows(store: RolloutStore, query: AuditQuery) -> list[AuditRow]:
    """Return every row of a query, page after page. Raises `StoreUnavailable`."""
    rows: list[AuditRow] = []
    while True:
        page = await store.audit(msgspec.structs.replace(query, limit=PAGE))
        rows += page
        if len(page) < PAGE:
            return rows
        query = msgspec.structs.replace(query, after=page[-1].number)


class WatchAudit:
    """Goes through the audit, and waits for more.

    Args:
        store: keeps the audit, and hints at news.
        poll: it is looked at this often without a hint.
    """

    def __init__(self, store: RolloutStore, poll: timedelta = POLL) -> None:
        """Begin with nobody watching."""
        self._store = store
        self._poll = poll
        self._waiting: dict[int, asyncio.Event] = {}
        self._numbers = iter(range(1, 2**62))
        store.on_change(self._tell)

    async def __call__(self, query: AuditQuery, *, follow: bool) -> AsyncGenerator[Sequence[AuditRow], None]:
        """Go through the rows of a query, by number; with `follow`, for ever.

        Raises:
            StoreUnavailable: also in the middle.
            AdmissionRefused: too many watch already.
        """
        with self._place() as news:
            after = query.after
            while True:
                news.clear()
                rows = await self._store.audit(msgspec.structs.replace(query, after=after, limit=PAGE))
                if rows:
                    after = rows[-1].number
                    yield rows
                if len(rows) == PAGE:
                    continue
                if not follow:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._poll.total_seconds()):
                        await news.wait()

    @contextmanager
    def _place(self) -> Iterator[asyncio.Event]:
        if len(self._waiting) >= MOST_WATCHERS:
            raise AdmissionRefused(f"{MOST_WATCHERS} watch the audit already; come back later", retry_after=SOON)
        number, news = next(self._numbers), asyncio.Event()
        self._waiting[number] = news
        try:
            yield news
        finally:
            del self._waiting[number]

    def _tell(self) -> None:
        for news in self._waiting.values():
            news.set()


class GatesSaid(msgspec.Struct, frozen=True):
    """What gates said when a step was last asked for, in words."""

    words: str
    at: datetime


ASKED: Final = frozenset({Happening.RAMP_SET, Happening.FLAGS_CREATED, Happening.REFUSED, Happening.HELD})
"""What is written of a step that gates were asked about."""


class LastSaid:
    """Remembers, for each definition, the newest answer of its gates; each audit row is read once."""

    def __init__(self, store: RolloutStore) -> None:
        """Begin with nothing read."""
        self._store = store
        self._after = 0
        self._said: dict[Digest, GatesSaid] = {}

    def of(self, digest: Digest) -> GatesSaid | None:
        """Return what was said of a definition, as of the last `look`."""
        return self._said.get(digest)

    async def look(self) -> None:
        """Read what is new. Raises `StoreUnavailable`."""
        for row in await all_rows(self._store, AuditQuery(after=self._after)):
            self._after = max(self._after, row.number)
            event = row.body
            if not isinstance(event, RolloutEvent):
                continue
            if event.what is Happening.REVISED and Digest(event.detail) in self._said:
                self._said[event.digest] = self._said.pop(Digest(event.detail))
            elif event.what in ASKED and event.detail:
                self._said[event.digest] = GatesSaid(event.detail, event.at)
