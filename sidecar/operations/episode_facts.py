"""What is known of an episode's last dispatching turn: from memory, else from one short read, else unknown."""

import asyncio
from collections import OrderedDict
from datetime import timedelta

from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import EpisodeId, Slot
from sidecar.operations.ports import Recorder, Store


class EpisodeFacts:
    """A bounded cache over the store.

    Args:
        limit: longest to wait for the store.
        kept: most episodes remembered; the least recently used is forgotten first.
    """

    def __init__(self, store: Store, recorder: Recorder, limit: timedelta, kept: int) -> None:
        """Begin with nothing."""
        self._store = store
        self._recorder = recorder
        self._limit = limit.total_seconds()
        self._kept = kept
        self._known: OrderedDict[EpisodeId, tuple[Slot, ...]] = OrderedDict()

    async def last_dispatched(self, episode_id: EpisodeId) -> tuple[Slot, ...] | None:
        """Return the slots of the last dispatching turn; empty if there was none; None if it cannot be found out."""
        if episode_id in self._known:
            self._known.move_to_end(episode_id)
            return self._known[episode_id]
        try:
            async with asyncio.timeout(self._limit):
                slots = await self._store.last_dispatching_turn(episode_id)
        except (TimeoutError, SubagentsError):
            self._recorder.anomaly("episode_facts_unknown", "the store did not say in time")
            return None
        return self._known.get(episode_id) or self._remember(episode_id, slots)

    def dispatched(self, episode_id: EpisodeId, slots: tuple[Slot, ...]) -> None:
        """Note which slots a turn has called."""
        if slots:
            self._remember(episode_id, slots)

    def _remember(self, episode_id: EpisodeId, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        self._known[episode_id] = slots
        self._known.move_to_end(episode_id)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)
        return slots
