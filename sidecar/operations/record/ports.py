"""What the operations need of a store, and what a database must offer so that `JournalStore` can use it.

The rules about what may be appended exist once, in `sidecar/core/journal/rules.py`. A database must guarantee:

1. The facts of a `TurnAppend` are written completely and in order, durably when the call returns, or not at all.
2. Nothing is written unless the turn has as many facts as the append says (`before`). A database with several writing
   processes compares and sets in one statement.
3. Each fact gets the next number of its instance, without gaps, and extends the running root of its instance and day.
4. Only `remove`, `remove_frames` and `erase` change or remove data; they reject markers that do not fit.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime
from typing import Protocol

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded
from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, ListPage, StoredTurn, TurnQuery, TurnRow
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId
from sidecar.core.journal.appends import RootState, TurnAppend, TurnFacts
from sidecar.core.journal.entries import AttemptFrames, Draft, Stored
from sidecar.core.journal.facts import Body
from sidecar.core.journal.markers import Erasure, FactsRemoved, TextsErased
from sidecar.core.journal.texts import Texts
from sidecar.core.listing.changes import Changes, Watermarks


class CommitUnknown(Exception):
    """A commit whose answer was lost: it may have succeeded or not. The same group may be committed again."""


class NotThisJournal(Exception):
    """A place is not in the journal: it is another one, or an older copy of it, or retention removed the place."""


class RecordReads(Protocol):
    """Reads of the record while turns run. Every method raises `StoreUnavailable` if it cannot answer."""

    @property
    def instance(self) -> InstanceId:
        """Return the id under which this process appends; a new one at each start."""

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn; None if nothing of it is on record."""

    async def child_events(self, turn_id: TurnId, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child of a turn in order; empty if it is not known."""

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn, if it has ended."""

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots called in the episode's last turn that called any; empty if there is none."""

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches with calls that have not settled, and whose owner is dead; oldest first."""

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns that have not ended and whose `turn_expires_at` is before `now`; oldest first."""

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended, newest first; those that began before another open turn, if it is named."""

    async def turns(self, query: TurnQuery) -> ListPage[TurnRow]:
        """Return a list of turns, newest first; for eyes, not for decisions: see `ListPage.as_of`."""

    async def episodes(self, limit: int, before: EpisodeMark | None = None) -> ListPage[EpisodeRow]:
        """Return the episodes used last, newest first."""

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn, by child and number."""


class JournalReads(Protocol):
    """Reads of the journal. Every method raises `StoreUnavailable` if it cannot answer."""

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn; none if nothing of it is on record."""

    async def frames(self, turn_id: TurnId) -> Sequence[AttemptFrames]:
        """Return what the runners sent in a turn, by step and number."""

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return the turn of an episode that ended last, of those that called any sub-agent."""

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches of open turns with calls that have not settled, and whose owner is dead; oldest first."""

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return open turns whose `expires_at` is before `now`; oldest first."""

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended, newest first; those that began before another open turn, if it is named."""

    async def changed(self, after: Watermarks, limit: int, only: Sequence[str] | None = None) -> Changes:
        """Return the turns that have some of the next `limit` facts after `after`, of some sequences, or of all.

        Raises `NotThisJournal`.
        """

    async def erased_turns(self) -> Sequence[TurnId]:
        """Return the turns that have facts without texts."""


class ArchiveReads(Protocol):
    """Reads of the journal for verifying; each sees one consistent state."""

    async def roots(self) -> Sequence[RootState]:
        """Return the running roots, by instance and day."""

    def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Go through all facts of the turns of a day. Those of one instance come in the order of its running root."""

    def turn_ids(self) -> AsyncIterator[TurnId]:
        """Go through all turns on record."""

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn; none if nothing of it is on record."""

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return the marker of every removal, by instance and partition."""

    async def erasures(self) -> Sequence[TextsErased]:
        """Return the marker of every erasure."""


class RecordArchive(ArchiveReads, Protocol):
    """What verifying, retention and erasing need of the journal."""

    async def removable(self, ended_before: datetime) -> Sequence[RootState]:
        """Return the roots of the days on which each turn has ended, before then."""

    async def remove(self, markers: Sequence[FactsRemoved]) -> int:
        """Keep the markers, and remove the days that they name: turns with facts, frames and roots.

        Returns how many turns are gone. Raises `RecordConflict`, and removes nothing, for markers that do not fit the
        roots, or leave out an instance that has appended to a day.
        """

    def turns_saying(self, text: str) -> AsyncIterator[TurnId]:
        """Iterate over the turns whose texts contain these characters; a turn may occur more than once."""

    async def erase(self, erasure: Erasure) -> None:
        """Keep the marker, and take texts and salts of the facts, and the frames of their turns.

        Raises `RecordConflict`, and changes nothing, if one of the facts is not there, or has no texts.
        """

    async def compact(self) -> None:
        """Remove erased texts from the database's own files, if it has any.

        Appends wait during this time. Raises `StoreUnavailable`.
        """

    async def remove_frames(self, ended_before: datetime) -> int:
        """Remove what runners sent in attempts of turns that ended before then; returns how many attempts."""


class Journal(JournalReads, RecordArchive, Protocol):
    """A database that stores the facts. One object for each process and database."""

    @property
    def instance(self) -> InstanceId:
        """Return the id under which this process appends; a new one at each start."""

    @property
    def shared(self) -> bool:
        """Return whether other processes may append to it while this one does."""

    @property
    def waits(self) -> bool:
        """Return whether `append` may have to wait for anything."""

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Write the decided appends, each turn once, in one transaction.

        Returns, for each of them, whether it was kept; False: the turn has other facts than it was decided on.

        Raises:
            StoreUnavailable: nothing is kept.
            CommitUnknown: it may be kept or not. The turns have to be read again.
        """

    async def renew_lease(self) -> None:
        """Renew the lease of this process. Raises `StoreUnavailable`.

        A database that only one process can open does nothing here: every other instance is dead.
        """

    async def close(self) -> None:
        """Give everything back, the lease too: this instance is dead to the others from now on. Never raises."""


class Store(RecordReads, Protocol):
    """Stores everything that must survive a crash. See the rules above."""

    @property
    def waits(self) -> bool:
        """Return whether `append` may have to wait; if it never does, no timer is set for it."""

    @property
    def shared(self) -> bool:
        """Return whether other processes may append to the same record while this one lives."""

    def draft(
        self, turn_id: TurnId, at: datetime, body: Body, texts: Texts, frames: tuple[AttemptFrames, ...] = ()
    ) -> Draft:
        """Return what happened as a draft of this process, with its salt."""

    async def append(self, entries: Sequence[Draft]) -> None:
        """Make `entries`, all of one turn, durable, whole, after everything that was handed over before.

        With none: return when everything handed over before is decided. A draft that is on record adds nothing.

        Raises:
            RecordConflict: the record says otherwise; nothing of `entries` is kept.
            StoreUnavailable: it cannot be confirmed; appending the same again is safe.
        """
