import pytest

from sidecar.adapters.record_memory import MemoryDatabase, RecordInMemory
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.ports import Database
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.suite import DatabaseSuite


class MemoryBench(RecordBench):
    """Instances that share one record."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._contents = RecordInMemory()
        self._dead: set[InstanceId] = set()

    async def open(self, instance: str) -> Database:
        """Return one more instance."""
        return MemoryDatabase(self._contents, InstanceId(instance), lambda other: other not in self._dead)

    async def kill(self, database: Database) -> None:
        """Remember that it is dead."""
        self._dead.add(database.instance)


class TestMemory(DatabaseSuite):
    """The record in memory keeps every rule."""

    @pytest.fixture
    def bench(self) -> RecordBench:
        """An empty record."""
        return MemoryBench()
