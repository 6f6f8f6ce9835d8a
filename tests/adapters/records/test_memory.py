import pytest

from sidecar.adapters.record_memory import JournalContents, MemoryJournal
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.suite import SharedDatabaseSuite


class MemoryBench(RecordBench):
    """Instances that share one record."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._contents = JournalContents()
        self._dead: set[InstanceId] = set()

    async def journal(self, instance: str) -> Journal:
        """Return one more instance."""
        return MemoryJournal(self._contents, InstanceId(instance), lambda other: other not in self._dead)

    def projection(self, instance: str) -> Projection:
        """Return the rows beside the facts."""
        return self._contents.rows

    async def kill(self, journal: Journal) -> None:
        """Remember that it is dead."""
        self._dead.add(journal.instance)


class TestMemory(SharedDatabaseSuite):
    """The record in memory keeps every rule."""

    @pytest.fixture
    def bench(self) -> RecordBench:
        """An empty record."""
        return MemoryBench()
