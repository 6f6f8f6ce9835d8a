import pytest

from sidecar.adapters.record_memory import JournalContents, MemoryJournal
from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.suite import SharedDatabaseSuite
from tests.support.record_builders import a_dispatch, a_whole_turn


class MemoryBench(RecordBench):
    """Instances that share one record."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.contents = JournalContents()
        self._dead: set[InstanceId] = set()

    async def journal(self, instance: str) -> Journal:
        """Return one more instance."""
        return MemoryJournal(self.contents, InstanceId(instance), lambda other: other not in self._dead)

    def projection(self, instance: str) -> Projection:
        """Return the rows beside the facts."""
        return self.contents.rows

    async def kill(self, journal: Journal) -> None:
        """Remember that it is dead."""
        self._dead.add(journal.instance)


class TestMemory(SharedDatabaseSuite):
    """The record in memory keeps every rule."""

    @pytest.fixture
    def bench(self) -> RecordBench:
        """An empty record."""
        return MemoryBench()


async def test_memory_keeps_no_more_bytes_than_it_may_and_forgets_what_ended_first() -> None:
    """An open turn outlives turns that began later and have ended; the newest one is kept, whatever it takes."""
    bench = MemoryBench()
    contents, record = bench.contents, await bench.open("first")
    await record.append([a_dispatch("open")])
    of_open = contents.weight
    for number in range(6):
        await record.append(a_whole_turn(f"turn-{number}", ("shop",), episode_id=EpisodeId("episode-1")))
    of_one = (contents.weight - of_open) // 6
    contents.most_bytes = of_open + 3 * of_one + of_one // 2

    await record.append(a_whole_turn("turn-6", ("shop",), episode_id=EpisodeId("episode-1")))
    assert list(contents.turns) == ["open", "turn-4", "turn-5", "turn-6"]
    assert list(contents.ended) == ["turn-4", "turn-5", "turn-6"]
    assert contents.weight == sum(turn.weight for turn in contents.turns.values()) <= contents.most_bytes

    contents.most_bytes = 1
    await record.append(a_whole_turn("turn-7", ("shop",), episode_id=EpisodeId("episode-1")))
    assert (list(contents.turns), contents.weight) == (["turn-7"], contents.turns[TurnId("turn-7")].weight)
