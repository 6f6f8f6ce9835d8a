"""What the operations need of a store, and what a database has to offer so that `group_commit` makes a store of it.

The rules every database keeps (the conformance suite in `tests/adapters/records` holds each one to them):

1. A group of records is appended whole or not at all, in order, and durably when the call returns.
2. Appending a record that is there already, with the same contents, changes nothing: an append whose answer was lost is
   repeated. That holds for whoever appends it, and whatever else has happened since.
3. Anything that contradicts the record is refused with `RecordConflict`, and nothing of its group is kept:
   - the id is there with other contents;
   - `DispatchOpened` or `ChildOpened` for a turn that has ended;
   - a record of a dispatch (`ChildOpened`, `ChildEvent`, `AttemptRecorded`, `CallSettled`) that another instance owns,
     or that is not there; the instance that opened a dispatch owns it until a `DispatchTaken` with the next epoch;
   - `DispatchTaken` whose epoch is not the next one, unless this instance has taken it with that epoch;
   - two children of a turn with the same `step_idx`;
   - `TurnEnded` while a child of the turn is not closed (with those that the same group closes before it);
   - a `ChildEvent` that does not follow the child's last event (`sequence` one more, `previous_link` its link; for the
     first one: 1 and `ChildOpened.link`), or comes after `CLOSED`.
4. With each `CLOSED` event that is new, the running root of the instance that appends it grows by one `ClosedChild`.
5. Nothing is changed or removed but by `purge`, which refuses markers that are not the newest state it was given.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Protocol

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.executing.events import ChildEvent
from sidecar.core.executing.records import AttemptRecorded, Record
from sidecar.core.executing.stored_record import (
    ClosedChild,
    ClosedState,
    EpisodeRow,
    RetentionMarker,
    StoredChild,
    StoredTurn,
    TurnQuery,
    TurnRow,
)
from sidecar.core.identifiers import ChildId, DispatchId, EpisodeId, InstanceId, Slot, TurnId


class CommitUnknown(Exception):
    """A commit whose answer was lost: it may be kept or not. The same group may be committed again."""


class RecordReads(Protocol):
    """What is asked of the record while turns run. Every method raises `StoreUnavailable` if it cannot say."""

    @property
    def instance(self) -> InstanceId:
        """Return the id under which this process appends; a new one at each start."""

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn; None if nothing of it is on record."""

    async def child_events(self, child_id: ChildId) -> Sequence[ChildEvent]:
        """Return the events of one child in order; empty if it is not known."""

    async def routing_record(self, turn_id: TurnId) -> RoutingRecord | None:
        """Return the routing decision of a turn, if it has ended."""

    async def last_dispatching_turn(self, episode_id: EpisodeId) -> tuple[Slot, ...]:
        """Return the slots called in the episode's last turn that called any; empty if there is none."""

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches with calls that have not settled, and whose owner is dead; oldest first."""

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return turns that have not ended and whose `turn_expires_at` is before `now`; oldest first."""

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns, newest first."""

    async def episodes(self, limit: int) -> Sequence[EpisodeRow]:
        """Return the episodes used last, newest first."""

    async def attempts(self, turn_id: TurnId) -> Sequence[AttemptRecorded]:
        """Return what the runners sent in a turn, by child and number."""


class RecordArchive(Protocol):
    """What verifying and retention need of a database; reads see one consistent state each."""

    async def closed_states(self) -> Sequence[ClosedState]:
        """Return where the running root of every instance stands, by instance."""

    def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of an instance's running root that are kept, by number."""

    def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children that are kept, by id."""

    async def markers(self) -> Sequence[RetentionMarker]:
        """Return every marker, by instance and number."""

    async def purgeable(self, closed_before: datetime) -> Sequence[ClosedState]:
        """Return, for each instance, up to where its children were all closed, and their turns ended, before then."""

    async def purge(self, markers: Sequence[RetentionMarker]) -> int:
        """Keep the markers, and remove what they cover: children with events and frames, and turns left without any.

        Returns how many children are gone. Raises `RecordConflict` for a marker that does not fit the running root.
        """

    async def purge_childless(self, before: datetime) -> int:
        """Remove some of the turns that ended before then and have no child on record; returns how many, 0 at the end.

        No running root speaks of them, so that there is no marker.
        """

    async def purge_frames(self, before: datetime) -> int:
        """Remove what runners sent in attempts of turns that ended before then; returns how many attempts."""


class Database(RecordReads, RecordArchive, Protocol):
    """A database that keeps the record. One object for each process and database."""

    async def commit(self, records: Sequence[Record]) -> None:
        """Append one group in one transaction; see the rules above.

        Raises:
            RecordConflict: refused, nothing is kept.
            StoreUnavailable: not kept.
            CommitUnknown: it may be kept or not; the same group may be committed again.
        """

    async def renew_lease(self) -> None:
        """Say that this process is alive. Raises `StoreUnavailable`.

        A database that only one process can open has nothing to do here: every other instance is dead.
        """

    async def close(self) -> None:
        """Give everything back, the lease too: this instance is dead to the others from now on. Never raises."""


class Store(RecordReads, Protocol):
    """Keeps what must not be lost. See the rules above."""

    @property
    def waits(self) -> bool:
        """Say whether `append` may have to wait for anything; if it never does, no timer is set for it."""

    @property
    def shared(self) -> bool:
        """Say whether other processes may append to the same record while this one lives."""

    async def append(self, records: Sequence[Record]) -> None:
        """Make `records` durable, whole, after everything that was handed over before.

        With no records: return when everything handed over before is decided.

        Raises:
            RecordConflict: the record says otherwise; nothing of `records` is kept.
            StoreUnavailable: it cannot be confirmed; appending the same again is safe.
        """
