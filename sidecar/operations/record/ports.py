"""What the operations need of a store, and what a database must offer so that `JournalStore` can use it.

The rules about what may be appended exist once, in `sidecar/core/journal/rules.py`. A database must guarantee:

1. The facts of a `TurnAppend` are written completely and in order, durably when the call returns, or not at all.
2. Nothing is written unless the turn has as many facts as the append says (`before`). A database with several writing
   processes compares and sets in one statement.
3. Each fact gets the next number of its instance, without gaps, and extends the running root of its instance and day.
4. Only `remove`, `remove_frames` and `erase` change or remove data; they reject markers that do not fit.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Protocol

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.errors import StoreUnavailable
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
    """The answer of a commit was lost: it may have succeeded or failed. Committing the same group again is safe."""


UNREADABLE: Final = "unreadable turn"
"""Marks an error that concerns one turn only, so that a loop over turns can continue with the next turn."""


class NotThisJournal(Exception):
    """A position is not in the journal: it belongs to another journal or an older copy, or retention removed it."""


def unreadable_turn(why: Exception) -> StoreUnavailable:
    """Return the error for a turn with a fact that this sidecar cannot read. Other turns are not affected."""
    metadata = {"record": UNREADABLE}
    return StoreUnavailable(f"the record cannot be read: {why}", retry_after=timedelta(minutes=1), metadata=metadata)


def is_of_unreadable_turn(error: StoreUnavailable) -> bool:
    """Return whether only one turn cannot be read, e.g. because it has a fact of a newer format."""
    return error.metadata.get("record") == UNREADABLE


class RecordReads(Protocol):
    """Reads of the record while turns run. Every method raises `StoreUnavailable` if it cannot answer."""

    @property
    def instance(self) -> InstanceId:
        """Return the id under which this process appends; a new one at each start."""

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return everything that is recorded of a turn; None if nothing is."""

    async def child_events(self, turn_id: TurnId, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child of a turn in order; empty if the child is unknown."""

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn, if it has ended."""

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots that the episode's last dispatching turn called; empty if there is none."""

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId | None]]:
        """Return dispatches that have unsettled calls and whose owner is dead; oldest first.

        None in place of a dispatch: the turn cannot be read, so it may have such dispatches.
        """

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns that have not ended and whose `turn_expires_at` is before `now`; oldest first."""

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended, newest first; with `before` only those that began before that open turn."""

    async def turns(self, query: TurnQuery) -> ListPage[TurnRow]:
        """Return a list of turns, newest first. A decision needs `complete_turns`, because a list may lag."""

    async def episodes(self, limit: int, before: EpisodeMark | None = None) -> ListPage[EpisodeRow]:
        """Return the most recently used episodes, newest first."""

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return the runners' messages of a turn, by child and number."""

    async def changed(self, after: Watermarks, limit: int) -> Changes:
        """Return the turns that have some of the next `limit` facts after `after`. Raises `NotThisJournal`."""

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn; none if nothing of it is on record."""


class JournalReads(Protocol):
    """Reads of the journal. Every method raises `StoreUnavailable` if it cannot answer."""

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn; none if nothing of it is on record."""

    async def frames(self, turn_id: TurnId) -> Sequence[AttemptFrames]:
        """Return the runners' messages of a turn, by step and number."""

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return the episode's turn that ended last, of those that called a sub-agent."""

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId | None]]:
        """Return dispatches of open turns that have unsettled calls and whose owner is dead; oldest first.

        None in place of a dispatch: the turn cannot be read, so it may have such dispatches.
        """

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return open turns whose `expires_at` is before `now`; oldest first."""

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended, newest first; with `before` only those that began before that open turn."""

    async def changed(self, after: Watermarks, limit: int, only: Sequence[str] | None = None) -> Changes:
        """Return the turns that have some of the next `limit` facts after the position `after`.

        `only` limits the facts to these sequences. Raises `NotThisJournal`.
        """

    async def erased_turns(self) -> Sequence[TurnId]:
        """Return the turns that have facts without texts."""


class ArchiveReads(Protocol):
    """Reads of the journal for verifying; each sees one consistent state."""

    async def roots(self) -> Sequence[RootState]:
        """Return the running roots, by instance and day."""

    def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Iterate over all facts of the turns of a day. Facts of one instance come in the order of its running root."""

    def turn_ids(self) -> AsyncIterator[TurnId]:
        """Iterate over all recorded turns."""

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn; none if nothing of it is on record."""

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return the marker of every removal, by instance and partition."""

    async def erasures(self) -> Sequence[TextsErased]:
        """Return the marker of every erasure."""


class RecordArchive(ArchiveReads, Protocol):
    """What verifying, retention and erasing need of the journal."""

    async def removable(self, ended_before: datetime) -> Sequence[RootState]:
        """Return the roots of the days on which every turn ended before `ended_before`."""

    async def remove(self, markers: Sequence[FactsRemoved]) -> int:
        """Store the markers, and remove the days that they name: turns with facts, frames and roots.

        Returns the number of removed turns. Raises `RecordConflict`, and removes nothing, if a marker does not fit its
        root, or if an instance that appended to a day has no marker.
        """

    def turns_saying(self, text: str) -> AsyncIterator[TurnId]:
        """Iterate over the turns whose texts contain these characters; a turn may occur more than once."""

    async def erase(self, erasure: Erasure) -> None:
        """Store the marker, and remove texts and salts of the facts, and the frames of their turns.

        Raises `RecordConflict`, and changes nothing, if one of the facts does not exist or has no texts.
        """

    async def compact(self) -> None:
        """Remove erased texts from the database's own files, if it has any.

        Appends wait during this time. Raises `StoreUnavailable`.
        """

    async def remove_frames(self, ended_before: datetime) -> int:
        """Remove the runners' messages of turns that ended before `ended_before`; return the number of attempts."""


class Journal(JournalReads, RecordArchive, Protocol):
    """A database that stores the facts. One object for each process and database."""

    @property
    def instance(self) -> InstanceId:
        """Return the id under which this process appends; a new one at each start."""

    @property
    def shared(self) -> bool:
        """Return whether other processes may append to it at the same time."""

    @property
    def waits(self) -> bool:
        """Return whether `append` may have to wait."""

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Write the accepted appends, each turn once, in one transaction.

        Returns, for each append, whether it was stored; False: the turn has other facts than the decision was based on.

        Raises:
            StoreUnavailable: nothing was stored.
            CommitUnknown: the appends may be stored or not. The turns must be read again.
        """

    async def renew_lease(self) -> None:
        """Renew the lease of this process. Raises `StoreUnavailable`.

        A database that only one process can open does nothing here: every other instance is dead.
        """

    async def close(self) -> None:
        """Release everything, including the lease: for other processes this instance is dead from now on.

        Never raises.
        """


class Store(RecordReads, Protocol):
    """Stores everything that must survive a crash. See the rules above."""

    @property
    def waits(self) -> bool:
        """Return whether `append` may have to wait; if it never does, callers set no timer for it."""

    @property
    def shared(self) -> bool:
        """Return whether other processes may append to the same record while this one runs."""

    def draft(
        self, turn_id: TurnId, at: datetime, body: Body, texts: Texts, frames: tuple[AttemptFrames, ...] = ()
    ) -> Draft:
        """Return a draft of this process, with its salt."""

    async def append(self, entries: Sequence[Draft]) -> None:
        """Make `entries`, all of one turn, durable as a whole, after everything that was appended before.

        Without entries: return when every earlier append is decided. A draft that is recorded already adds no fact.

        Raises:
            RecordConflict: the record contradicts `entries`; none of them is stored.
            StoreUnavailable: the result cannot be confirmed; appending the same entries again is safe.
        """
