"""Writes the rolling summary of an episode if it is due and no other writer was first. Source: PC1-FR-11, TN-15."""

from msgspec import Struct

from sidecar.core.history.compaction import NewSummary, check_summary, is_repeated
from sidecar.core.history.message_layers import refuse_component_data
from sidecar.core.history.records import EpisodeKey, EpisodeSize, Summary
from sidecar.operations.history.episode_facts import CompactionFacts
from sidecar.operations.history.read_history import HistoryAccess
from sidecar.operations.ports import Clock


class WriteSummaryRequest(Struct, frozen=True):
    """Replace the summary of an episode."""

    episode: EpisodeKey
    summary: NewSummary


class WriteSummary:
    """The operation of the consumer-agent. Safe to repeat with the same contents."""

    def __init__(self, history: HistoryAccess, facts: CompactionFacts, clock: Clock) -> None:
        self._history = history
        self._facts = facts
        self._clock = clock

    async def __call__(self, request: WriteSummaryRequest) -> tuple[int, EpisodeSize]:
        """Write the summary; return its revision and the size of the episode.

        Raises:
            InlineComponent, InvalidRequest, CompactionNotDue, RecentTurnsIntact, SummaryOutdated, MemoryUnavailable.
        """
        episode, new, rules = request.episode, request.summary, self._history.rules
        refuse_component_data("text", new.text)
        await self._history.up_to_date(episode)
        contents = await self._history.memory.read(episode, rules.episode_turns)
        # Before the checks: after the first write, the repeated request would be refused as outdated.
        if is_repeated(contents.summary, new):
            return new.expected_revision + 1, await self._history.memory.size(episode)
        check_summary(contents, new, rules.compaction)
        summary = Summary(new.expected_revision + 1, new.text, new.up_to_turn_id, self._clock.now())
        # The memory compares the revision again: another writer may have been first since the read.
        size = await self._history.memory.write_summary(episode, summary)
        self._facts.sized(episode, size)
        return summary.revision, size
