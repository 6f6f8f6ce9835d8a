"""Reads the audit: the existing rows, then each new row, and the last answers of gates about each definition."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from sidecar.core.errors import AdmissionRefused
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.events import GateResult, RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import SlotRollout
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow, RolloutStore

PAGE: Final = 200
"""Rows of one read."""
POLL: Final = timedelta(seconds=1)
# Each watcher reads the store at every change, so their number multiplies the load of a step.
MOST_WATCHERS: Final = 32
SOON: Final = timedelta(seconds=5)
"""When a refused watcher may try again."""
NOT_TAKEN: Final = frozenset({RolloutEventKind.REFUSED, RolloutEventKind.HELD})
"""Audit events of steps that were not taken."""


class AuditReader(Protocol):
    """Reads audit rows."""

    async def audit(self, query: AuditQuery) -> Sequence[AuditRow]:
        """Return audit rows, oldest first. Raises `StoreUnavailable`."""
        ...


class SlotHistory(msgspec.Struct, frozen=True):
    """The stored history of a slot.

    Attributes:
        rows: oldest first, without rows of steps that were not taken, which changed nothing.
        beginning: the state of the rollout before the first row; None: retention has removed no row of the slot.
        known_from: the earliest time for which the state of the slot is known; None: its very beginning.
    """

    rows: Sequence[AuditRow]
    beginning: SlotRollout | None
    known_from: datetime | None


async def past_of(store: RolloutStore, slot: Slot) -> SlotHistory:
    """Return the stored history of a slot. Raises `StoreUnavailable`."""
    while True:
        markers = await store.audit_markers()
        rows = [row async for page in pages_of(store, AuditQuery(slot=slot)) for row in page if _was_taken(row)]
        if len(await store.audit_markers()) == len(markers):  # else retention removed rows during the read
            break
    last = markers[-1] if markers else None
    beginning = next((each for each in last.standing if each.slot == slot), None) if last else None
    return SlotHistory(rows, beginning, last.before if last and beginning else None)


async def pages_of(
    store: AuditReader, query: AuditQuery, until: int | None = None
) -> AsyncGenerator[list[AuditRow], None]:
    """Yield the rows of a query page by page, up to the number `until`. Raises `StoreUnavailable`.

    For callers that keep only a few rows: a pipeline that repeats a refused step for weeks leaves a million rows.
    """
    while True:
        page = await store.audit(msgspec.structs.replace(query, limit=PAGE))
        yield [row for row in page if until is None or row.number <= until]
        if len(page) < PAGE or (until is not None and page[-1].number >= until):
            return
        query = msgspec.structs.replace(query, after=page[-1].number)


async def all_rows(store: AuditReader, query: AuditQuery, until: int | None = None) -> list[AuditRow]:
    """Return every row of a query, up to the number `until`. Raises `StoreUnavailable`."""
    return [row async for page in pages_of(store, query, until) for row in page]


def _was_taken(row: AuditRow) -> bool:
    return not isinstance(row.body, RolloutEvent) or row.body.what not in NOT_TAKEN


class WatchAudit:
    """Yields the rows of the audit, and waits for further ones.

    Args:
        store: has the audit, and notifies of possible changes.
        poll: interval of reads without a notification.
    """

    def __init__(self, store: RolloutStore, poll: timedelta = POLL) -> None:
        """Start without watchers."""
        self._store = store
        self._poll = poll
        self._waiting: dict[int, asyncio.Event] = {}
        self._numbers = iter(range(1, 2**62))
        # Only a hint: steps of other replicas arrive by the poll.
        store.on_change(self._tell)

    async def __call__(self, query: AuditQuery, *, follow: bool) -> AsyncGenerator[Sequence[AuditRow], None]:
        """Yield the rows of a query, by number; with `follow`, wait for further rows without end.

        Raises:
            StoreUnavailable: possible after some rows.
            AdmissionRefused: the maximum number of watchers is reached.
        """
        with self._register_watcher() as news:
            after = query.after
            while True:
                # Before the read: a row that is written during it sets the event again.
                news.clear()
                rows = await self._store.audit(msgspec.structs.replace(query, after=after, limit=PAGE))
                if rows:
                    after = rows[-1].number
                    yield rows
                # A full page: there may be more, so the next one is read without waiting.
                if len(rows) == PAGE:
                    continue
                if not follow:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._poll.total_seconds()):
                        await news.wait()

    @contextmanager
    def _register_watcher(self) -> Iterator[asyncio.Event]:
        """Count a watcher within the context; yield its event, which is set when there may be new rows."""
        if len(self._waiting) >= MOST_WATCHERS:
            raise AdmissionRefused(
                f"{MOST_WATCHERS} watch the audit already; come back later",
                metadata={"limit": "watchers", "most": str(MOST_WATCHERS)},
                retry_after=SOON,
            )
        number, news = next(self._numbers), asyncio.Event()
        self._waiting[number] = news
        try:
            yield news
        # Also when the client breaks off. Otherwise abandoned watchers would count towards the limit for ever.
        finally:
            del self._waiting[number]

    def _tell(self) -> None:
        for news in self._waiting.values():
            news.set()


class LastGateVerdicts(msgspec.Struct, frozen=True):
    """The answers of the gates to the last request for a step."""

    results: tuple[GateResult, ...]
    at: datetime


class LastVerdict:
    """Remembers, for each definition, the newest answer of its gates; each audit row is read once."""

    def __init__(self, store: RolloutStore) -> None:
        """Begin with nothing read."""
        self._store = store
        self._after = 0
        self._verdicts: dict[Digest, LastGateVerdicts] = {}

    def of(self, digest: Digest) -> LastGateVerdicts | None:
        """Return the last answers about a definition, as of the last `look`."""
        return self._verdicts.get(digest)

    async def look(self) -> None:
        """Read the rows that are new. Raises `StoreUnavailable`."""
        async for page in pages_of(self._store, AuditQuery(after=self._after)):
            for row in page:
                self._remember(row)

    def _remember(self, row: AuditRow) -> None:
        # Rows are only added at the end, so nothing before this number can change any more.
        self._after = max(self._after, row.number)
        event = row.body
        # Transitions carry no answers of gates.
        if not isinstance(event, RolloutEvent):
            return
        if event.what is RolloutEventKind.REVISED and Digest(event.detail) in self._verdicts:
            # A minor revision keeps the verdicts under its new digest; the row's detail is the earlier one.
            self._verdicts[event.digest] = self._verdicts.pop(Digest(event.detail))
        elif event.gate_results:
            self._verdicts[event.digest] = LastGateVerdicts(event.gate_results, event.at)
