"""The facts of an episode that a bind needs: from a cache, from one short read, or unknown.

A bind tells the orchestrator which sub-agents the episode called last, and whether the episode should be compacted.
Both are only hints, so a slow or broken store never fails a bind: the answer is then "unknown".
"""

from collections import OrderedDict
from datetime import timedelta

from msgspec import Struct

from sidecar.core.errors import SubagentsError
from sidecar.core.history.compaction import CompactionDue, CompactionRules, due_of, size_after
from sidecar.core.history.records import EpisodeKey, EpisodeSize, TurnHistory
from sidecar.core.identifiers import EpisodeId, Slot
from sidecar.operations.bounded_wait import await_with_limit
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.ports import Clock, Recorder
from sidecar.operations.record.ports import Store


class EpisodeFacts:
    """The slots that each episode called last: a bounded cache over the store.

    Args:
        limit: the longest wait for the store.
        kept: the most cached episodes; the least recently used one is dropped first.
    """

    def __init__(self, store: Store, recorder: Recorder, limit: timedelta, kept: int) -> None:
        self._store = store
        self._recorder = recorder
        self._limit = limit.total_seconds()
        self._kept = kept
        self._known: OrderedDict[EpisodeId, tuple[Slot, ...]] = OrderedDict()

    async def last_dispatched(self, episode_id: EpisodeId) -> tuple[Slot, ...] | None:
        """Return the slots that the last dispatching turn called; empty if there was none, None if unknown."""
        if episode_id in self._known:
            # Another sidecar may have dispatched since. Never read again, because this is only a hint for the model.
            self._known.move_to_end(episode_id)
            return self._known[episode_id]
        try:
            slots = await await_with_limit(self._limit, self._store.last_dispatching_turn(episode_id))
        except (TimeoutError, SubagentsError):
            self._recorder.anomaly("episode_facts_unknown", "the store did not say in time")
            return None
        # A dispatch during the read has stored newer slots, which must not be replaced by the older ones.
        return self._known.get(episode_id) or self._remember(episode_id, slots)

    def dispatched(self, episode_id: EpisodeId, slots: tuple[Slot, ...]) -> None:
        """Note the slots that a turn has called."""
        # A turn without calls does not change the last dispatching turn.
        if slots:
            self._remember(episode_id, slots)

    def _remember(self, episode_id: EpisodeId, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        self._known[episode_id] = slots
        self._known.move_to_end(episode_id)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)
        return slots


class SizeBounds(Struct, frozen=True):
    """Limits of the cache of episode sizes.

    Attributes:
        limit: the longest wait for the memory.
        kept: the most cached episodes; the least recently used one is dropped first.
        fresh_for: the age from which a size is read again, because another process may have added turns.
    """

    limit: timedelta
    kept: int
    fresh_for: timedelta = timedelta(seconds=10)


class CompactionFacts:
    """The sizes of episodes: from a cache, from one short read, or unknown.

    Args:
        memory: read on a cache miss.
        rules: when compaction is due.
        clock: measures the age of cached sizes.
        recorder: receives the sizes of the episodes of bound turns.
    """

    def __init__(
        self, memory: BoundedMemory, rules: CompactionRules, bounds: SizeBounds, clock: Clock, recorder: Recorder
    ) -> None:
        self._memory = memory
        self._recorder = recorder
        self._rules = rules
        self._bounds = bounds
        self._clock = clock
        self._known: OrderedDict[EpisodeKey, tuple[EpisodeSize, float]] = OrderedDict()

    async def compaction_due(self, episode: EpisodeKey) -> CompactionDue:
        """Return whether the episode should be compacted, or that this is unknown. Never raises."""
        known = self._fresh(episode)
        if known is None:
            before = self._known.get(episode)
            try:
                known = await await_with_limit(self._bounds.limit.total_seconds(), self._memory.size(episode))
            except (TimeoutError, SubagentsError):
                return self._report(None)
            # Compared by identity: every change of the cache stores a new tuple.
            if self._known.get(episode) is not before:  # a turn was stored during the read: its size is newer
                known = self._known.get(episode, (known, 0.0))[0]
            self.sized(episode, known)
        return self._report(known)

    def expect(self, turn: TurnHistory) -> None:
        """Add a turn that is about to be stored to the cached size of its episode."""
        # Not after the write: the next turn may be bound before it, and would be told an old size.
        known = self._known.get(turn.episode)
        if known is not None:  # an unknown size is read at the next bind
            self.sized(turn.episode, size_after(known[0], turn))

    def sized(self, episode: EpisodeKey, size: EpisodeSize) -> None:
        """Cache the size of an episode."""
        self._known[episode] = size, self._clock.monotonic()
        self._known.move_to_end(episode)
        while len(self._known) > self._bounds.kept:
            self._known.popitem(last=False)

    def forget(self, episode: EpisodeKey) -> None:
        """Drop the cached size of an episode."""
        self._known.pop(episode, None)

    def _fresh(self, episode: EpisodeKey) -> EpisodeSize | None:
        """Return the cached size; None if there is none, or if it is too old."""
        size, learned_at = self._known.get(episode, (None, 0.0))
        if size is None or self._clock.monotonic() - learned_at > self._bounds.fresh_for.total_seconds():
            return None
        self._known.move_to_end(episode)
        return size

    def _report(self, size: EpisodeSize | None) -> CompactionDue:
        """Report the size of a bound turn's episode, None if unknown; return whether compaction is due."""
        due = due_of(size, self._rules)
        self._recorder.turn_bound(due, size.turns if size else None, size.tokens if size else None)
        return due
