from pathlib import Path
from types import TracebackType

import pytest

from sidecar.adapters.record_sqlite import SqliteRecord, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.ports import Database
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.suite import DatabaseSuite


class SqliteBench(RecordBench):
    """Instances over one open file. Each sees all others as dead, as only one process has a file open."""

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        self._path = path

    async def __aenter__(self) -> "SqliteBench":
        """Open the file."""
        self._engine = await SqliteEngine.open(self._path, record_schema(), _unexpected)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close it."""
        await self._engine.close()

    async def open(self, instance: str) -> Database:
        """Return one more instance."""
        database = SqliteRecord(self._engine, InstanceId(instance))
        await database.begin()
        return database

    async def kill(self, database: Database) -> None:
        """Do nothing: it is dead for the others already."""


class TestSqlite(DatabaseSuite):
    """The record in a SQLite file keeps every rule."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> RecordBench:
        """An empty record."""
        return SqliteBench(tmp_path / "record.sqlite")


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")
