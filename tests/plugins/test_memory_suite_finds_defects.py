"""The episode memory suite can fail: each planted defect is found, and each case finds at least one."""

from collections.abc import Sequence
from typing import Final

import msgspec
import pytest

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.core.history.message_layers import references_of
from sidecar.core.history.records import (
    EpisodeContents,
    EpisodeKey,
    EpisodeSize,
    OwnTurn,
    Summary,
    TurnHistory,
)
from sidecar.core.identifiers import EpisodeId, Principal, Slot, TurnId
from sidecar_conformance.episode_memory import EpisodeMemoryBench, EpisodeMemorySuite
from sidecar_conformance.memory_bench import BEGAN
from sidecar_conformance.suite import case_names, failures_of


class DropsPayloads(InProcessMemory):
    """Keeps no component data."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Cut it off."""
        cut = tuple(msgspec.structs.replace(each, component_data_json="") for each in turn.tool_messages)
        return await super().append(msgspec.structs.replace(turn, tool_messages=cut))


class NewestFirst(InProcessMemory):
    """Gives turns the wrong way round."""

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Reverse them."""
        found = await super().read(episode, most_turns)
        return EpisodeContents(found.summary, found.turns[::-1], found.kept)


class LastWriteWins(InProcessMemory):
    """A repeated turn replaces the first."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Forget the first."""
        kept = self._episodes.get(turn.episode)
        if kept is not None and turn.turn_id in kept.turns:
            kept.turns[turn.turn_id] = turn
        return await super().append(turn)


class TakesAnything(InProcessMemory):
    """Looks at no body."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Smuggle the bodies past the check."""
        bare = msgspec.structs.replace(turn, narration="", answers=())
        size = await super().append(bare)
        kept = self._episodes[turn.episode]
        if kept.turns[turn.turn_id] == bare:
            kept.turns[turn.turn_id] = turn
        return size


class EverybodysTurns(InProcessMemory):
    """Gives a sub-agent what others said, too."""

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Give them all."""
        turns = (await self.read(episode, 1000)).turns
        everything = [
            OwnTurn(turn.turn_id, each.sub_agent_id, turn.ended_at, each.asked, each.narration)
            for turn in turns
            for each in turn.answers
        ]
        return everything[-most:]


class SharesReferences(InProcessMemory):
    """Annotates the components of others, too."""

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Add those of the whole turn."""
        turns = {turn.turn_id: turn for turn in (await self.read(episode, 1000)).turns}
        own = await super().own_turns(episode, slot, most)
        return [
            msgspec.structs.replace(each, references=references_of(turns[each.turn_id].tool_messages)) for each in own
        ]


class OneEpisodeForAll(InProcessMemory):
    """Own turns of every session."""

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Search everywhere."""
        found: list[OwnTurn] = []
        for key in list(self._episodes):
            found += await super().own_turns(key, slot, most)
        return found


class OldestOwn(InProcessMemory):
    """The oldest own turns instead of the newest."""

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Cut at the wrong end."""
        return (await super().own_turns(episode, slot, 1000))[:most]


class ForgetsThePrincipal(InProcessMemory):
    """Keys by the episode id alone."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep it for anybody."""
        return await super().append(msgspec.structs.replace(turn, episode=_anybodys(turn.episode)))

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Read for anybody."""
        return await super().read(_anybodys(episode), most_turns)

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Write for anybody."""
        return await super().write_summary(_anybodys(episode), summary)


class UnknownIsAnError(InProcessMemory):
    """An episode has to be there."""

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Raise if it is not."""
        if episode not in self._episodes:
            raise LookupError("no such episode")
        return await super().read(episode, most_turns)


class CountsEverything(InProcessMemory):
    """Takes summarised turns for part of the size."""

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Count all turns."""
        size = await super().size(episode)
        return EpisodeSize((await self.read(episode, 1000)).kept, size.tokens)


class DropsWhatIsSummarised(InProcessMemory):
    """A summary replaces the turns."""

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Drop them."""
        size = await super().write_summary(episode, summary)
        kept = self._episodes[episode]
        for turn_id in list(kept.turns)[: max(0, len(kept.turns) - size.turns)]:
            del kept.turns[turn_id]
        return size


class LastSummaryWins(InProcessMemory):
    """Compares no revision."""

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Write whatever comes."""
        kept = self._episodes.get(episode)
        if kept is not None:
            kept.summary = None if summary.revision == 1 else Summary(summary.revision - 1, "", TurnId("x"), BEGAN)
        return await super().write_summary(episode, summary)


class KeepsFifty(InProcessMemory):
    """Loses turns under load."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep fifty."""
        if (await self.read(turn.episode, 1)).kept >= 50:
            return await self.size(turn.episode)
        return await super().append(turn)


class ClosesOnce(InProcessMemory):
    """Cannot be closed again."""

    closed = False

    async def close(self) -> None:
        """Raise the second time."""
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


DEFECTS: Final = (
    DropsPayloads,
    NewestFirst,
    LastWriteWins,
    TakesAnything,
    EverybodysTurns,
    SharesReferences,
    OneEpisodeForAll,
    OldestOwn,
    ForgetsThePrincipal,
    UnknownIsAnError,
    CountsEverything,
    DropsWhatIsSummarised,
    LastSummaryWins,
    KeepsFifty,
    ClosesOnce,
)


class Suite(EpisodeMemorySuite):
    """Every case, the durable one too: memory does not have that ability."""


def _anybodys(episode: EpisodeKey) -> EpisodeKey:
    return EpisodeKey(EpisodeId(episode.episode_id), Principal("anybody"))


def failed(memory: type[InProcessMemory]) -> frozenset[str]:
    """Return the cases that a memory fails."""

    class Bench(EpisodeMemoryBench):
        def make(self) -> InProcessMemory:
            return memory()

    return frozenset(failures_of(Suite, Bench))


USUAL: Final = failed(InProcessMemory)


def test_a_memory_that_forgets_is_not_durable_and_otherwise_right() -> None:
    """The suite finds nothing else in the built-in."""
    assert frozenset({"test_what_was_kept_is_there_for_the_next"}) == USUAL


@pytest.mark.parametrize("memory", DEFECTS)
def test_a_planted_defect_is_found(memory: type[InProcessMemory]) -> None:
    """At least one case fails that the sound memory passes."""
    assert failed(memory) - USUAL


def test_every_case_finds_something() -> None:
    """No case passes whatever the memory does."""
    found = USUAL.union(*(failed(memory) for memory in DEFECTS))
    assert case_names(Suite) - found == frozenset()
