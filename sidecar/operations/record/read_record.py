"""Reads the record: lists of turns and episodes, one turn, and its events as they happen.

All data comes from the store, so the turn may run at any sidecar.

Clients of the history service call this, among them the operators' console. No dispatch waits for it.

Source: SX-39, SX-40.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

import msgspec

from sidecar.core.decoding import from_utf8
from sidecar.core.errors import AdmissionRefused
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, StoredTurn, TurnQuery, TurnRow
from sidecar.core.identifiers import ChildId, TurnId
from sidecar.core.listing.turn_rows import mark_of
from sidecar.operations.record.hints import RecordHints
from sidecar.operations.record.ports import RecordReads
from sidecar.operations.record.turn_views import (
    ROW_BYTES,
    TurnSummary,
    in_order,
    only,
    row_of,
    truncate_to_size,
    unknown,
)
from sidecar.operations.rules import RecordRules


class ExportReplay:
    """Exports a turn, so that it can be replayed elsewhere."""

    def __init__(self, reads: RecordReads) -> None:
        self._reads = reads

    async def __call__(self, turn_id: TurnId) -> str:
        """Return the document of a turn, as JSON text.

        Raises:
            UnknownTurn: the record has nothing about it.
            StoreUnavailable: the store did not answer.
        """
        from sidecar.core.replaying.document import document_of, document_to_json  # noqa: PLC0415  rare: not at the start

        turn = await self._reads.turn(turn_id)
        if turn is None:
            raise unknown(turn_id)
        attempts = await self._reads.attempts(turn_id)
        return from_utf8(document_to_json(document_of(turn, tuple(attempts))))


MOST_ROWS = 200
"""The most rows of a list, whatever the caller requests."""
SOON = timedelta(seconds=5)
"""The time to retry if there are too many watchers."""


class TurnPage(msgspec.Struct, frozen=True):
    """Some turns, newest first.

    Attributes:
        next_before: where the next page begins; None if this is the last page.
        as_of: facts that were appended later may be missing; None: the page is complete.
    """

    rows: tuple[TurnRow, ...]
    next_before: tuple[datetime, TurnId] | None
    as_of: datetime | None = None


class EpisodePage(msgspec.Struct, frozen=True):
    """Some episodes, most recently used first; otherwise like `TurnPage`."""

    rows: tuple[EpisodeRow, ...]
    next_before: EpisodeMark | None
    as_of: datetime | None = None


class EventBatch(msgspec.Struct, frozen=True):
    """Some events of a turn.

    Attributes:
        children: the children of these events that no earlier batch has described.
        ended: the turn has ended, and this is the last batch.
    """

    children: tuple[ChildOpened, ...] = ()
    events: tuple[ChildEvent, ...] = ()
    ended: bool = False


class ReadRecord:
    """Reads turns and lists of turns."""

    def __init__(self, reads: RecordReads, hints: RecordHints, rules: RecordRules) -> None:
        self._reads = reads
        self._hints = hints
        self._rules = rules

    async def list_turns(self, query: TurnQuery) -> TurnPage:
        """Return a page; `query.limit` 0 means the default. Raises `StoreUnavailable`."""
        limit = min(query.limit or self._rules.page, MOST_ROWS)
        # One row more than is shown tells whether there is another page. A count would read the whole list.
        page = await self._reads.turns(msgspec.structs.replace(query, limit=limit + 1))
        shown, has_more = page.rows[:limit], len(page.rows) > limit
        return TurnPage(shown, (shown[-1].began_at, shown[-1].turn_id) if has_more else None, page.as_of)

    async def list_episodes(self, limit: int, before: EpisodeMark | None = None) -> EpisodePage:
        """Return a page of the most recently used episodes; `limit` 0 means the default. Raises `StoreUnavailable`."""
        limit = min(limit or self._rules.page, MOST_ROWS)
        page = await self._reads.episodes(limit + 1, before)
        shown, has_more = page.rows[:limit], len(page.rows) > limit
        return EpisodePage(shown, mark_of(shown[-1]) if has_more else None, page.as_of)

    async def get_turn(self, turn_id: TurnId, child_ids: Sequence[ChildId] = ()) -> TurnSummary:
        """Return a turn, or with `child_ids` some of its children; as much as fits into one response.

        Raises:
            UnknownTurn: nothing is recorded of it.
            StoreUnavailable: the store did not answer.
        """
        turn = await self._turn(turn_id)
        return truncate_to_size(row_of(turn), only(turn, child_ids), self._rules.answer_bytes)

    async def watch(self, turn_id: TurnId, after: Mapping[ChildId, int]) -> AsyncGenerator[EventBatch, None]:
        """Iterate over the events of a turn, and wait for further ones until the turn has ended.

        Args:
            turn_id: the turn.
            after: the newest sequence that was seen, by child; children that are not named are sent completely.

        Raises:
            UnknownTurn: nothing is recorded of it.
            StoreUnavailable: also during the iteration.
            AdmissionRefused: there are too many watchers.
        """
        # Registered before the first read, so that no fact between the read and the wait is missed.
        with self._watching(turn_id) as waker:
            watched = _Watched(after)
            while True:
                # Before the read: a fact that is appended during it sets the event again, and is read in the next
                # round.
                waker.clear()
                # Only one batch is in memory while the watcher reads it, so 64 watchers that do not read hold 64
                # batches and not 64 turns.
                batch, more = watched.news(await self._turn(turn_id), self._rules.batch_bytes)
                if batch.events or batch.ended:
                    yield batch
                if batch.ended:
                    return
                if not more:
                    await self._wait_for_news(waker)

    async def _turn(self, turn_id: TurnId) -> StoredTurn:
        turn = await self._reads.turn(turn_id)
        if turn is None:
            raise unknown(turn_id)
        return turn

    @contextmanager
    def _watching(self, turn_id: TurnId) -> Iterator[asyncio.Event]:
        """Watch a turn, if there is a place for another watcher. Raises `AdmissionRefused`."""
        # Each watcher reads the whole turn at each poll, so their number limits the load on the store.
        if self._hints.watching >= self._rules.watchers:
            raise AdmissionRefused(
                f"{self._rules.watchers} watch turns already; come back later",
                metadata={"limit": "watchers", "most": str(self._rules.watchers)},
                retry_after=SOON,
            )
        with self._hints.watched(turn_id) as waker:
            yield waker

    async def _wait_for_news(self, waker: asyncio.Event) -> None:
        """Wait for a hint and then briefly for further facts; without a hint, until the next poll."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rules.poll.total_seconds()):
                await waker.wait()
            # Facts come in bursts; without this pause each of them would read and send the whole turn again.
            await asyncio.sleep(self._rules.gather.total_seconds())


class _OrderedEvent(msgspec.Struct):
    """One event with what decides its position among the events of all children.

    Attributes:
        time: of the event, or of an earlier event of the child if that is later.
        step_idx: of the child; decides between equal times.
    """

    time: datetime
    step_idx: int
    opened: ChildOpened
    event: ChildEvent


class _Watched:
    """What one watcher has received."""

    def __init__(self, after: Mapping[ChildId, int]) -> None:
        self._after = dict(after)  # a copy: it is updated with each event that is sent
        self._described: dict[ChildId, bool] = {}
        """Children that a batch has described, as keys."""

    def news(self, turn: StoredTurn, most_bytes: int) -> tuple[EventBatch, bool]:
        """Return the next events that fit into a message, and whether more follow."""
        children: list[ChildOpened] = []
        events: list[ChildEvent] = []
        size = 0
        for unseen in self._unseen(turn):
            described = unseen.event.child_id in self._described
            weight = _weight(unseen.event) + (0 if described else ROW_BYTES + len(unseen.opened.context_json.encode()))
            # At least one event for each message, whatever its size: otherwise the watch would stop at a large event.
            if events and size + weight > most_bytes:
                return EventBatch(tuple(children), tuple(events)), True
            if not described:
                self._described[unseen.event.child_id] = True
                children.append(unseen.opened)
            events.append(unseen.event)
            size += weight
            self._after[unseen.event.child_id] = unseen.event.sequence
        # The end is sent only with the last events, because the watch stops after it.
        return EventBatch(tuple(children), tuple(events), ended=turn.ended is not None), False

    def _unseen(self, turn: StoredTurn) -> list[_OrderedEvent]:
        """Return the events that the watcher has not received, in the order in which they are sent."""
        unseen: list[_OrderedEvent] = []
        for child in in_order(turn.children):
            seen, latest = self._after.get(child.opened.child_id, 0), child.opened.opened_at
            for event in child.events:
                # A clock that was set back between two sidecars must not reorder the events of one child.
                latest = max(latest, event.time)
                if event.sequence > seen:
                    unseen.append(_OrderedEvent(latest, child.opened.step_idx, child.opened, event))
        return sorted(unseen, key=lambda each: (each.time, each.step_idx))


def _weight(event: ChildEvent) -> int:
    """Return the estimated size of an event in a message, in bytes."""
    return ROW_BYTES + len(event.summary.encode()) + len(event.details_json.encode())
