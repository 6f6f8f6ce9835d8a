from pathlib import Path
from types import TracebackType

import pytest

from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.identifiers import InstanceId
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from tests.adapters.records.bench import RecordBench
from tests.adapters.records.suite import DatabaseSuite


class SqliteBench(RecordBench):
    """Instances over one open file, one after the other, as processes have it."""

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        self._path = path

    async def __aenter__(self) -> "SqliteBench":
        """Open the file."""
        self._engine = await SqliteEngine.open(self._path, record_schema(), _unexpected)
        self._projection = SqliteProjection(self._path, _unexpected)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Close it."""
        await self._projection.close()
        await self._engine.close()

    async def journal(self, instance: str) -> Journal:
        """Return the next instance; nothing is to be appended by those before it any more."""
        journal = SqliteJournal(self._engine, InstanceId(instance))
        await journal.begin()
        return journal

    def projection(self, instance: str) -> Projection:
        """Return the rows in their file."""
        return self._projection

    async def kill(self, journal: Journal) -> None:
        """Do nothing: it is dead for the others already."""


class TestSqlite(DatabaseSuite):
    """The record in a SQLite file keeps every rule."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> RecordBench:
        """An empty record."""
        return SqliteBench(tmp_path / "record.sqlite")


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")
