"""The episode memory that comes with the sidecar passes the suite that every memory has to, and stays bounded."""

import pytest

from sidecar.adapters.memory_in_process import IN_PROCESS_MEMORY, InProcessMemory, MemoryBounds
from sidecar.core.history.compaction import size_of
from sidecar.policy.factory import make_episode_memory
from sidecar.policy.problems import PluginProblem
from sidecar_conformance.episode_memory import EpisodeMemoryBench, EpisodeMemorySuite
from sidecar_conformance.memory_bench import EPISODE, OTHER_EPISODE, OTHER_USER, SHOP, a_summary, a_turn


class InProcessBench(EpisodeMemoryBench):
    """Memory of this process."""

    def make(self) -> InProcessMemory:
        """Make one."""
        return InProcessMemory()


class TestInProcess(EpisodeMemorySuite):
    """`in_process`, which forgets when it goes."""

    closed = frozenset({"durable"})

    @pytest.fixture
    def bench(self) -> InProcessBench:
        """Make one."""
        return InProcessBench()


async def test_the_oldest_turns_of_an_episode_are_forgotten_first() -> None:
    """Three of five stay; the size is that of what is there."""
    memory = InProcessMemory(MemoryBounds(turns=3))
    for number in range(5):
        size = await memory.append(a_turn(number, SHOP))
    contents = await memory.read(EPISODE, 50)

    assert [turn.turn_id for turn in contents.turns] == ["turn-2", "turn-3", "turn-4"]
    assert size == size_of(contents)


async def test_the_episode_that_was_used_longest_ago_is_forgotten_first() -> None:
    """Two fit; reading counts as use."""
    memory = InProcessMemory(MemoryBounds(episodes=2))
    await memory.append(a_turn(1, SHOP))
    await memory.append(a_turn(1, SHOP, episode=OTHER_EPISODE))
    await memory.size(EPISODE)
    await memory.append(a_turn(1, SHOP, episode=OTHER_USER))

    assert [(await memory.size(each)).turns for each in (EPISODE, OTHER_EPISODE, OTHER_USER)] == [1, 0, 1]


@pytest.mark.parametrize("by", ["turn", "summary"])
async def test_bytes_are_bounded_and_the_newest_episode_stays(by: str) -> None:
    """One episode more than fits, by a turn or by a summary: the older one goes; the room is free again."""
    memory = InProcessMemory(MemoryBounds(total_bytes=2_000))
    await memory.append(a_turn(1, SHOP, narration="x" * 1_200))
    if by == "turn":
        await memory.append(a_turn(1, SHOP, episode=OTHER_EPISODE, narration="y" * 3_000))
    else:
        await memory.write_summary(OTHER_EPISODE, a_summary(1, 1, "y" * 3_000))
    assert [(await memory.read(each, 9)) != await memory.read(OTHER_USER, 9) for each in (EPISODE, OTHER_EPISODE)] == [
        False,
        True,
    ]

    await memory.append(a_turn(2, SHOP, narration="x" * 1_200))
    assert (await memory.size(EPISODE)).turns == 1
    assert (await memory.read(OTHER_EPISODE, 9)).summary is None


def test_it_is_made_from_its_settings_only() -> None:
    """Bounds by name; a misspelt one is refused."""
    assert isinstance(make_episode_memory(IN_PROCESS_MEMORY, {"episodes": 5}), InProcessMemory)
    with pytest.raises(PluginProblem, match="epsodes"):
        make_episode_memory(IN_PROCESS_MEMORY, {"epsodes": 5})
