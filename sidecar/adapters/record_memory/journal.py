"""The journal in memory. It has the rules of the journals in databases, but loses all facts when the process ends."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import date, datetime

from sidecar.adapters.record_memory.changes_since import changes_after
from sidecar.adapters.record_memory.contents import JournalContents
from sidecar.core.errors import RecordConflict
from sidecar.core.identifiers import DispatchId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import RootState, TurnAppend, TurnFacts
from sidecar.core.journal.encoding import erased
from sidecar.core.journal.entries import AttemptFrames, Stored
from sidecar.core.journal.markers import Erasure, FactsRemoved, TextsErased
from sidecar.core.listing.changes import Changes, Watermarks

ONLY: InstanceId = InstanceId("this-process")


class MemoryJournal:
    """Implements `Journal` for one instance, i.e. one run of a sidecar.

    Args:
        contents: the contents, which simulated sidecars share; None: a new journal.
        instance: the id of the sidecar that appends.
        alive: returns whether another instance is alive; None: there are no others.
    """

    waits = False  # `append` never yields to the event loop

    def __init__(
        self,
        contents: JournalContents | None = None,
        instance: InstanceId = ONLY,
        alive: Callable[[InstanceId], bool] | None = None,
    ) -> None:
        self.contents = contents or JournalContents()
        self._instance = instance
        self._is_other_alive = alive

    @property
    def instance(self) -> InstanceId:
        """The appending instance."""
        return self._instance

    @property
    def shared(self) -> bool:
        """Whether other instances may append."""
        return self._is_other_alive is not None

    async def append(self, appends: Sequence[TurnAppend]) -> Sequence[bool]:
        """Append facts; return for each turn whether its facts were stored."""
        # Without an await, so that concurrent appends of instances that share the contents cannot interleave.
        return [self.contents.append(each) for each in appends]

    async def renew_lease(self) -> None:
        """Do nothing: all instances in one memory end together."""

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    # --- reads

    async def facts(self, turn_id: TurnId) -> TurnFacts:
        """Return all facts of a turn."""
        turn = self.contents.turns.get(turn_id)
        facts = () if turn is None else tuple(turn.facts)
        return TurnFacts(facts, frozenset(each.by for each in facts if self._is_alive(each.by)))

    async def frames(self, turn_id: TurnId) -> Sequence[AttemptFrames]:
        """Return the recorded runner frames of a turn."""
        turn = self.contents.turns.get(turn_id)
        return sorted(turn.frames.values(), key=lambda each: (each.step, each.number)) if turn else ()

    async def last_called(self, episode_id: EpisodeId) -> TurnId | None:
        """Return the episode's last turn with a call."""
        return self.contents.last_called.get(episode_id)

    async def left_behind(self, limit: int) -> Sequence[tuple[TurnId, DispatchId]]:
        """Return dispatches without a living owner."""
        # Turns are in the order of their first facts, so the oldest dispatches come first.
        unowned = [
            (turn_id, dispatch_id)
            for turn_id, turn in self.contents.turns.items()
            if not turn.head.ended
            for dispatch_id in turn.head.unsettled
            if not self._is_alive(turn.head.dispatches[dispatch_id].owner)
        ]
        return unowned[:limit]

    async def overdue_turns(self, now: datetime, limit: int) -> Sequence[TurnId]:
        """Return open turns that are past their deadline."""
        overdue = [
            (turn.index.expires_at, turn_id)
            for turn_id, turn in self.contents.turns.items()
            if not turn.head.ended and turn.index.expires_at < now
        ]
        return [turn_id for _, turn_id in sorted(overdue)[:limit]]

    async def open_turns(self, limit: int, before: TurnId | None = None) -> Sequence[TurnId]:
        """Return turns that have not ended."""
        newest_first = [turn_id for turn_id, turn in reversed(self.contents.turns.items()) if not turn.head.ended]
        # As in the databases, the list begins at the newest turn if `before` is unknown.
        begin = newest_first.index(before) + 1 if before in newest_first else 0
        return newest_first[begin : begin + limit]

    async def changed(self, after: Watermarks, limit: int, only: Sequence[str] | None = None) -> Changes:
        """Return the turns whose newest facts come after `after`."""
        return changes_after(self.contents, after, limit)

    async def erased_turns(self) -> Sequence[TurnId]:
        """Return the turns whose texts were erased."""
        turns = self.contents.turns.items()
        return [turn_id for turn_id, turn in turns if any(fact.texts is None for fact in turn.facts)]

    # --- archive

    async def roots(self) -> Sequence[RootState]:
        """Return the running roots."""
        return [
            RootState(instance, day, number, root.hex())
            for (instance, day), (number, root) in sorted(self.contents.roots.items())
        ]

    async def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Iterate over all facts of the turns of a day."""
        numbered = [
            (number, fact)
            for turn in self.contents.turns.values()
            if turn.day == day
            for number, fact in zip(turn.numbers, turn.facts, strict=True)
        ]
        # In the order of the journal, in which the running roots were computed.
        for _, fact in sorted(numbered, key=lambda each: each[0]):
            yield fact

    async def turn_ids(self) -> AsyncIterator[TurnId]:
        """Iterate over all turns."""
        # A copy: other tasks may add and drop turns while the caller has the control.
        for turn_id in list(self.contents.turns):
            yield turn_id

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return every marker."""
        return sorted(self.contents.markers, key=lambda each: (each.instance, each.partition))

    async def removable(self, ended_before: datetime) -> Sequence[RootState]:
        """Return the roots of the days that retention may remove."""
        young = {
            turn.day
            for turn in self.contents.turns.values()
            if turn.index.ended_at is None or turn.index.ended_at >= ended_before
        }
        return [each for each in await self.roots() if each.day not in young]

    async def remove(self, markers: Sequence[FactsRemoved]) -> int:
        """Store the markers, and remove the days that they name."""
        days = {marker.partition for marker in markers}
        signed = {(each.instance, each.partition): (each.number, each.root) for each in markers}
        # `roots` never suspends, so no append comes between this comparison and the removal.
        stored = {
            (each.instance, each.day): (each.number, each.root) for each in await self.roots() if each.day in days
        }
        if signed != stored:
            raise RecordConflict("the markers do not fit the running roots", metadata={"days": str(len(days))})
        removed = [turn_id for turn_id, turn in self.contents.turns.items() if turn.day in days]
        for turn_id in removed:
            self.contents.forget(turn_id)
        for key in stored:
            del self.contents.roots[key]
        self.contents.markers += markers
        return len(removed)

    async def erasures(self) -> Sequence[TextsErased]:
        """Return the marker of every erasure."""
        return tuple(self.contents.erasures)

    async def turns_saying(self, text: str) -> AsyncIterator[TurnId]:
        """Iterate over the turns whose texts contain these characters."""
        for turn_id, turn in list(self.contents.turns.items()):  # a copy, for the same reason as in `turn_ids`
            if any(text.encode() in (fact.texts or b"") for fact in turn.facts):
                yield turn_id

    async def erase(self, erasure: Erasure) -> None:
        """Store the marker, and remove the texts."""
        turns = self.contents.turns
        for each in erasure.facts:
            facts = turns[each.turn_id].facts if each.turn_id in turns else []
            stored = facts[each.version - 1] if each.version <= len(facts) else None
            # All facts are checked before the first one is changed, because there is no rollback in memory.
            if stored is None or stored.link != each.link or stored.texts is None:
                raise RecordConflict("a fact that is to be erased is not there, or has no texts")
        for each in erasure.facts:
            facts = turns[each.turn_id].facts
            facts[each.version - 1] = erased(facts[each.version - 1], erasure.marker.marker_id)
        # The estimated sizes of the turns stay too large, which only means that they are dropped earlier. The frames
        # contain the same texts as the facts.
        for turn_id in erasure.turns:
            turns[turn_id].frames.clear()
        self.contents.erasures.append(erasure.marker)

    async def compact(self) -> None:
        """Do nothing: there are no files."""

    async def remove_frames(self, ended_before: datetime) -> int:
        """Remove the runner frames of turns that ended before this time."""
        removed = 0
        for turn in self.contents.turns.values():
            if turn.index.ended_at is not None and turn.index.ended_at < ended_before:
                removed += len(turn.frames)
                turn.frames.clear()
        return removed

    def _is_alive(self, owner: InstanceId) -> bool:
        return owner == self._instance or (self._is_other_alive is not None and self._is_other_alive(owner))
