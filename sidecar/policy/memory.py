"""The interface of an episode memory, the plugin that stores conversations. Contract `episode-memory/1`.

An implementation stores turns and summaries, each under the key of its episode. The sidecar decides who may read which
part, and when an episode is due for compaction (`core/history`). Each call has a deadline. An exception that is not
named here counts as an outage.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot


class EpisodeMemory(Protocol):
    """Stores episodes. Methods may be called concurrently. An unknown episode is empty; it is not an error."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Append a turn to its episode, and return the new size of the episode.

        Once the method has returned, every read finds the turn. A turn whose `turn_id` the episode already has changes
        nothing, even if its contents differ, because the sidecar repeats a call whose answer was lost.

        Raises:
            InlineComponent: a message of the assistant contains component data (`check_bodies`). The turn is not
                stored.
        """

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, oldest first. Turns that the summary covers are included.

        Args:
            episode: the key, which includes the principal. Turns of another principal are never returned.
            most_turns: the maximum number of turns; at least 1.
        """

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest turns of one sub-agent in one episode, at most `most`, oldest first.

        Compaction does not shorten them.
        """

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return the size of the part of the episode that a model would get (`size_of` of all stored turns)."""

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the episode's summary by the next one, atomically, and return the new size of the episode.

        No turn is altered or removed.

        Raises:
            SummaryOutdated: `summary.revision` is not the revision of the stored summary plus one: another client has
                written a summary in the meantime. Without a stored summary, the revision counts as 0.
        """

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


@runtime_checkable
class UserEraser(Protocol):
    """With it, `sidecar erase` also removes conversations."""

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user, with its summary, also from files on disk. Return the number of episodes."""


__all__: Sequence[str] = ("EpisodeMemory", "UserEraser")
