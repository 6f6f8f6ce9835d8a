"""The episode memory port: stores conversations. Contract `episode-memory/1`.

An adapter stores turns, and offers three keyed reads and one compare-and-set. The sidecar decides which parts may be
read, and when an episode is due for compaction (`core/history`). Each call has a deadline. An exception counts as an
outage, unless it is named here. The port does not prescribe the storage: an adapter may separate the layers.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot


class EpisodeMemory(Protocol):
    """Stores episodes. Methods may be called concurrently; an unknown episode is empty and not an error."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Append a turn to its episode, and return the new size of the episode.

        After the return every read finds the turn. A turn with a `turn_id` that the episode already has changes
        nothing, even if its contents differ: the sidecar repeats a call whose answer was lost.

        Raises:
            InlineComponent: an assistant's body holds component data (`check_bodies`). The turn is not stored.
        """

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, unaltered, oldest first, including turns that it summarises.

        Args:
            episode: the key, which includes the principal. Turns of another principal are never returned.
            most_turns: the maximum number of turns; at least 1.
        """

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest `most` answers of one sub-agent in one episode, oldest first.

        Compaction does not shorten them.
        """

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return how much of the episode a model would be given: `size_of` of everything that is stored."""

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the rolling summary by the next one, atomically, and return the new size of the episode.

        No turn is altered or removed.

        Raises:
            SummaryOutdated: `summary.revision` is not the present revision plus one (0 without a summary): another
                client has written a summary meanwhile.
        """

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


@runtime_checkable
class UserEraser(Protocol):
    """An optional interface of an episode memory, so that `sidecar erase` also reaches the conversations."""

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user, with its summary, also from files on disk; return the number of episodes."""


__all__: Sequence[str] = ("EpisodeMemory", "UserEraser")
