"""Rollouts in the record's SQLite file keep every rule, and are there after a restart."""

from datetime import timedelta
from pathlib import Path
from types import TracebackType

import pytest

from sidecar.adapters.record_sqlite import record_schema
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.identifiers import InstanceId
from tests.adapters.rollouts.bench import RolloutBench, WholeStore
from tests.adapters.rollouts.suite import RolloutSuite


class SqliteBench(RolloutBench):
    """Instances over one open file, as there is one process only."""

    shared = False

    def __init__(self, path: Path) -> None:
        """Keep the path."""
        super().__init__()
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

    async def open(self, instance: str) -> WholeStore:
        """Return one more instance."""
        return SqliteRollouts(self._engine, InstanceId(instance), self.clock)

    async def silence(self, instance: str, seconds: float) -> None:
        """Let time pass."""
        self.clock.time += timedelta(seconds=seconds)


class TestSqlite(RolloutSuite):
    """Rollouts in a SQLite file keep every rule."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> RolloutBench:
        """An empty file."""
        return SqliteBench(tmp_path / "record.sqlite")


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")
