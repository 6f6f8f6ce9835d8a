"""Derives the rows of lists anew, for a record that no sidecar has open."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sidecar.adapters.migrations import DatabaseProblem
from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.projector import Projector, ProjectorTiming
from sidecar.settings import Settings, SettingsProblem

SAY_EVERY: Final = 1.0
"""Seconds between two words on how far it is."""
NOBODY: Final = InstanceId("")
Progress = Callable[[int, int], None]


def rebuild_projection(settings: Settings, progress: Progress) -> int:
    """Derive all rows of lists anew; return from how many facts.

    Args:
        settings: say which record.
        progress: told from time to time how many facts were taken, and how many are left.

    Raises:
        SettingsProblem: the record cannot be opened, or a sidecar has it open.
    """
    said = settings.record
    try:
        match said.database:
            case "memory":
                raise SettingsProblem(["record.database is memory: there is nothing to rebuild"])
            case "sqlite":
                if not said.sqlite.path.exists():
                    raise DatabaseProblem(f"there is no record at {said.sqlite.path}")
                return asyncio.run(_rebuild_sqlite(said.sqlite.path, progress))
            case "postgresql":
                raise SettingsProblem(["record.database is postgresql: a running sidecar keeps its lists"])
    except (DatabaseProblem, StoreUnavailable) as problem:
        raise SettingsProblem([f"record.{said.database}: {problem}"]) from None


async def _rebuild_sqlite(path: Path, progress: Progress) -> int:
    engine = await SqliteEngine.open(path, record_schema(), _ignored)
    projection = SqliteProjection(path, _ignored)
    try:
        projector = Projector(
            SqliteJournal(engine, NOBODY), projection, MeasuringRecorder(Metrics()), ProjectorTiming(between=0)
        )
        await projector.rebuild()
        await projector.catch_up(_from_time_to_time(progress))
        return projector.projected
    finally:
        await projection.close()
        await engine.close()


def _from_time_to_time(progress: Progress) -> Progress:
    said = time.monotonic()

    def tell(taken: int, left: int) -> None:
        nonlocal said
        if time.monotonic() - said >= SAY_EVERY:
            said = time.monotonic()
            progress(taken, left)

    return tell


def _ignored(doing: str, error: str) -> None:
    """What stands against it is raised, and what is made anew anyway needs no word."""
