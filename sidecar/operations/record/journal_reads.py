"""Reads of a record, derived from the facts of its journal.

Every store of records (SQLite, PostgreSQL, memory) reads facts in its own way and derives everything else here, so
that all of them describe a turn in the same way.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, CallSettled, Record
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, ListPage, StoredTurn, TurnQuery, TurnRow
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, Slot, TurnId
from sidecar.core.journal.appends import TurnFacts
from sidecar.core.journal.attempt_frames import unpacked
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.journal.entries import AttemptFrames
from sidecar.core.journal.turn_state import TurnState, state_of
from sidecar.core.listing.changes import Changes, Watermarks
from sidecar.core.replaying.frames import attempt_to_json
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.ports import JournalReads, unreadable_turn


class ReadsOfJournal:
    """`RecordReads` without the instance. See the port for results and errors of each method."""

    def __init__(self, journal: JournalReads, lists: TurnListReader) -> None:
        self._reads = journal
        self._lists = lists

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return everything that is recorded of a turn."""
        found = await self._reads.facts(turn_id)
        return _state(turn_id, found).stored(found.living)

    async def child_events(self, turn_id: TurnId, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child."""
        reading = _state(turn_id, await self._reads.facts(turn_id)).reading
        step = reading.steps.get(child_id)
        return () if step is None else tuple(reading.children[step].events)

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn."""
        return _state(turn_id, await self._reads.facts(turn_id)).routing

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots of the episode's last ended turn that called any."""
        # From an index of ended turns: reading all turns of an episode would cost a bind too much.
        turn_id = await self._reads.last_called(episode_id)
        routing = None if turn_id is None else await self.routing_record(turn_id)
        return () if routing is None else routing.called

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId | None]]:
        """Return dispatches whose owner is dead."""
        return await self._reads.left_behind(limit)

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return open turns that have expired."""
        return await self._reads.overdue_turns(now, limit)

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended."""
        return await self._reads.open_turns(limit, before)

    async def turns(self, query: TurnQuery) -> ListPage[TurnRow]:
        """Return a list of turns."""
        return await self._lists.turns(query)

    async def episodes(self, limit: int, before: EpisodeMark | None = None) -> ListPage[EpisodeRow]:
        """Return the episodes used last."""
        return await self._lists.episodes(limit, before)

    async def changed(self, after: Watermarks, limit: int) -> Changes:
        """Return the turns of the next facts."""
        return await self._reads.changed(after, limit)

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        return await self._reads.facts(turn_id)

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return the runners' messages of a turn, by child and number."""
        frames = await self._reads.frames(turn_id)
        # Frames first: most turns of a large record have none left, and their facts need not be read.
        if not frames:
            return ()
        found = await self._reads.facts(turn_id)
        state = TurnState(turn_id)
        try:
            return attempts_of(state, state.read(found.facts), frames)
        except UnreadableFact as why:
            raise unreadable_turn(why) from None


def attempts_of(state: TurnState, records: Sequence[Record], frames: Iterable[AttemptFrames]) -> list[AttemptRecorded]:
    """Return the recorded attempts of a turn, by child and number. Raises `UnreadableFact`.

    Args:
        state: the state of the turn.
        records: the records that its facts contain.
        frames: in any order.
    """
    attempts = []
    for each in frames:
        # Frames are stored with the fact that settles their child, so the child is on record.
        child = state.reading.children[each.step].opened
        whole = attempt_to_json(unpacked(each.frames, _narration_of(child.child_id, records)))
        attempts.append(
            AttemptRecorded(each.attempt_id, child.child_id, state.turn_id, child.dispatch_id, each.number, whole)
        )
    return sorted(attempts, key=lambda each: (each.child_id, each.number))


def _narration_of(child_id: ChildId, records: Iterable[Record]) -> str:
    """Return the narration of the first outcome of a child among the records of its turn; empty if there is none.

    Stored frames have only the lengths of the pieces of this text. A later revision of the outcome may have another
    text.
    """
    settled = (each.outcome for each in records if isinstance(each, CallSettled))
    return next((each.answer.narration for each in settled if each.child_id == child_id), "")


def _state(turn_id: TurnId, found: TurnFacts) -> TurnState:
    """Return what the facts of a turn say. Raises `StoreUnavailable` if this sidecar cannot read one of them."""
    try:
        return state_of(turn_id, found.facts)
    except UnreadableFact as why:
        raise unreadable_turn(why) from None
