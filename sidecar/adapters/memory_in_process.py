"""The episode memory `in_process`: keeps conversations in memory until the process ends."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from sidecar.core.history.compaction import outdated, size_of, tokens_of
from sidecar.core.history.isolation import own_turns_of
from sidecar.core.history.message_layers import check_bodies
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot, TurnId
from sidecar.policy.specs import EpisodeMemorySpec


class MemoryBounds(msgspec.Struct, frozen=True):
    """The limits of the memory.

    Attributes:
        episodes: maximum number of episodes; the least recently used one is dropped first.
        turns: maximum number of turns of one episode; the oldest are dropped first.
        total_bytes: maximum estimated size of all episodes; whole episodes are dropped, but never the one in use.
    """

    episodes: int = 10_000
    turns: int = 1_000
    total_bytes: int = 256 * 1024 * 1024


class _StoredEpisode(msgspec.Struct):
    """One episode.

    Attributes:
        turns: the turns by id, oldest first.
        size: the size for a model, in turns and tokens.
        weight: the approximate size in memory, in bytes.
    """

    turns: OrderedDict[TurnId, TurnHistory] = msgspec.field(default_factory=OrderedDict)
    summary: Summary | None = None
    size: EpisodeSize = msgspec.field(default_factory=EpisodeSize)
    weight: int = 0


class InProcessMemory:
    """The interface `EpisodeMemory`, in memory. No method awaits, so each call is atomic and needs no lock."""

    def __init__(self, bounds: MemoryBounds | None = None) -> None:
        self._bounds = bounds or MemoryBounds()
        self._episodes: OrderedDict[EpisodeKey, _StoredEpisode] = OrderedDict()
        self._weight = 0

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Store a turn. A turn with an id that is stored already is ignored."""
        check_bodies(turn)
        stored = self._episodes.setdefault(turn.episode, _StoredEpisode())
        # The order of the dictionary is the order of use, so the first episode is the least recently used.
        self._episodes.move_to_end(turn.episode)
        if turn.turn_id not in stored.turns:
            stored.turns[turn.turn_id] = turn
            stored.size = EpisodeSize(stored.size.turns + 1, stored.size.tokens + tokens_of(turn))
            self._add_weight(stored, _weight_of(turn))
            # The oldest turns are dropped first: a model needs the newest, and a summary covers the others.
            while len(stored.turns) > self._bounds.turns:
                self._forget_oldest_turn(stored)
            self._make_room()
        return stored.size

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, oldest first."""
        stored = self._use(episode)
        if stored is None:
            return EpisodeContents()
        newest = tuple(islice(reversed(stored.turns.values()), most_turns))
        return EpisodeContents(stored.summary, newest[::-1], len(stored.turns))

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest answers of one sub-agent, oldest first."""
        stored = self._use(episode)
        answers = own_turns_of(stored.turns.values(), slot) if stored else ()
        return answers[max(0, len(answers) - most) :]

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return the size of the episode."""
        stored = self._use(episode)
        return stored.size if stored else EpisodeSize()

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary if the new one has the next revision."""
        stored = self._use(episode) or _StoredEpisode()
        present_revision = stored.summary.revision if stored.summary else 0
        if summary.revision != present_revision + 1:
            raise outdated(present_revision)
        old_bytes = len(stored.summary.text.encode()) if stored.summary else 0
        stored.summary = summary
        stored.size = size_of(_contents(stored))
        # A new episode is stored only here, after the check of the revision: a refused write must not create one.
        self._episodes[episode] = stored
        self._add_weight(stored, len(summary.text.encode()) - old_bytes)
        self._make_room()
        return stored.size

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user."""
        # Collected in a list first, because a dictionary must not lose keys during an iteration.
        erased = [episode for episode in self._episodes if episode.principal == principal]
        for episode in erased:
            self._weight -= self._episodes.pop(episode).weight
        return len(erased)

    async def close(self) -> None:
        """Do nothing: memory holds no connection."""

    def _use(self, episode: EpisodeKey) -> _StoredEpisode | None:
        """Return the episode, and mark it as the most recently used."""
        stored = self._episodes.get(episode)
        if stored is not None:
            self._episodes.move_to_end(episode)
        return stored

    def _add_weight(self, stored: _StoredEpisode, more: int) -> None:
        stored.weight += more
        self._weight += more

    def _forget_oldest_turn(self, stored: _StoredEpisode) -> None:
        _, turn = stored.turns.popitem(last=False)
        self._add_weight(stored, -_weight_of(turn))
        # Computed anew: a turn that the summary covers was not part of the size, and must not be subtracted.
        stored.size = size_of(_contents(stored))

    def _make_room(self) -> None:
        """Drop the least recently used episodes beyond the limits. The last one used stays, even if it is too large."""
        while len(self._episodes) > 1 and (
            len(self._episodes) > self._bounds.episodes or self._weight > self._bounds.total_bytes
        ):
            _, forgotten = self._episodes.popitem(last=False)
            self._weight -= forgotten.weight


def _contents(stored: _StoredEpisode) -> EpisodeContents:
    return EpisodeContents(stored.summary, tuple(stored.turns.values()), len(stored.turns))


def _weight_of(turn: TurnHistory) -> int:
    """Return the size of a turn as JSON, which approximates its size in memory."""
    return len(msgspec.json.encode(turn))


def _create(settings: Mapping[str, Any]) -> InProcessMemory:
    return InProcessMemory(MemoryBounds(**settings))


IN_PROCESS_MEMORY: Final = EpisodeMemorySpec(
    name="in_process",
    contract="episode-memory/1",
    summary="Conversations in memory, bounded; forgotten when the process stops",
    config_schema={
        "type": "object",
        "properties": {
            "episodes": {"type": "integer", "minimum": 1, "description": "Most episodes; default 10000."},
            "turns": {"type": "integer", "minimum": 1, "description": "Most turns of one episode; default 1000."},
            "total_bytes": {"type": "integer", "minimum": 1, "description": "Most bytes of all; default 256 MiB."},
        },
        "additionalProperties": False,
    },
    factory=_create,
)


def sidecar_episode_memories() -> Sequence[EpisodeMemorySpec]:
    """Offer `in_process`."""
    return [IN_PROCESS_MEMORY]
