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
        """Keep a turn after all others of its episode, and return how much the episode is now.

        Once it returns, every read finds the turn. A turn whose `turn_id` the episode has already changes nothing,
        whatever its contents.

        Raises:
            InlineComponent: an assistant's body holds component data (`check_bodies`); nothing is kept then.
        """

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Return the summary and the newest turns, unaltered and oldest first, those under the summary too.

        Args:
            episode: of this principal only.
            most_turns: how many at most; at least 1.
        """

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Return the newest `most` answers of one sub-agent in one episode, oldest first, and of no other sub-agent.

        Compaction leaves them as they are.
        """

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Return how much a model would be given of the episode: `size_of` of all that is kept."""

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the rolling summary by the next one, in one step, and return how much the episode is now.

        No turn is altered or dropped.

        Raises:
            SummaryOutdated: `summary.revision` is not one more than the present one's (0 without a summary).
        """

    async def close(self) -> None:
        """Release connections. Called once, at shutdown."""


@runtime_checkable
class UserEraser(Protocol):
    """An optional interface of an episode memory, so that `sidecar erase` also reaches the conversations."""

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user, summaries included, and return how many; nothing of them is left in files."""


__all__: Sequence[str] = ("EpisodeMemory", "UserEraser")
