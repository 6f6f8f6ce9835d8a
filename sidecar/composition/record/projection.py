"""Rebuilds the rows from which lists of turns are read; they are derived from the facts of the record.

A SQLite record can be rebuilt while no sidecar has it open, a PostgreSQL record at any time.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem
from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.adapters.system import SecretFileProblem
from sidecar.composition.record.open_record import dsn_of
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.listing.changes import Watermarks
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projector import Projector, ProjectorTiming
from sidecar.settings import Settings, SettingsProblem
from sidecar.settings.record import PostgresRecordSettings

REBUILDING: Final = InstanceId("sidecar projection rebuild")
LOOK_AGAIN: Final = 0.5
"""Seconds between two checks of the facts that other sidecars have projected."""
SAY_EVERY: Final = 1.0
"""Seconds between two progress reports."""
NO_INSTANCE: Final = InstanceId("")
"""The rebuild of a SQLite record appends no fact, so it needs no name."""
HOW_TO_REBUILD: Final = (
    "next: stop the sidecar, run this again and start the sidecar; or stop it, remove the .lists files beside the "
    "record and start it: it then rebuilds the lists while it serves"
)
Progress = Callable[[int, int], None]


def rebuild_projection(settings: Settings, progress: Progress) -> int:
    """Rebuild all rows of lists; return the number of facts.

    Args:
        settings: of the sidecar; they select the record.
        progress: called from time to time with the number of projected and of remaining facts.

    Raises:
        SettingsProblem: the record cannot be opened, or a sidecar has it open.
    """
    configured = settings.record
    try:
        match configured.database:
            case "memory":
                raise SettingsProblem(["record.database is memory: there is nothing to rebuild"])
            case "sqlite":
                # Otherwise the engine would create an empty record at a mistyped path.
                if not configured.sqlite.path.exists():
                    raise DatabaseProblem(f"there is no record at {configured.sqlite.path}")
                return asyncio.run(_rebuild_sqlite(configured.sqlite.path, progress))
            case "postgresql":
                return asyncio.run(_rebuild_postgresql(configured.postgresql, _at_intervals(progress)))
    except DatabaseHeld as problem:
        raise SettingsProblem([f"record.sqlite: {problem}", HOW_TO_REBUILD]) from None
    except (DatabaseProblem, SecretFileProblem, StoreUnavailable) as problem:
        raise SettingsProblem([f"record.{configured.database}: {problem}"]) from None


async def _rebuild_sqlite(path: Path, progress: Progress) -> int:
    # Takes the lock of the file: raises `DatabaseHeld` while a sidecar runs.
    engine = await SqliteEngine.open(path, record_schema(), _ignored)
    projection = SqliteProjection(path, _ignored)
    try:
        projector = Projector(
            SqliteJournal(engine, NO_INSTANCE), projection, MeasuringRecorder(Metrics()), ProjectorTiming(between=0)
        )
        # Removes all rows. If the process is killed afterwards, the next projector, also that of a sidecar, continues.
        await projector.rebuild()
        await projector.catch_up(_at_intervals(progress))
        return projector.projected
    finally:
        await projection.close()
        await engine.close()


async def _rebuild_postgresql(configured: PostgresRecordSettings, progress: Progress) -> int:
    """Remove all rows, then project the facts of sidecars that do not run. Running sidecars project their own facts."""
    try:
        from sidecar.adapters import postgresql  # noqa: PLC0415  its library is an extra
        from sidecar.adapters.record_postgresql import (  # noqa: PLC0415  the same holds
            JournalOptions,
            PostgresJournal,
            PostgresProjection,
        )
    except ModuleNotFoundError:
        raise DatabaseProblem("needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
    limits = postgresql.ConnectionTimeouts(
        configured.connect_timeout.total_seconds(), configured.statement_timeout.total_seconds()
    )
    dsn = dsn_of(configured, Redactor())
    journal, projection = (
        PostgresJournal(dsn, REBUILDING, JournalOptions(limits)),
        PostgresProjection(dsn, REBUILDING, limits),
    )
    try:
        projector = Projector(journal, projection, MeasuringRecorder(Metrics()), ProjectorTiming(between=0))
        await projector.rebuild()
        while True:
            await projector.catch_up()
            # Read from the database how far the facts of each sidecar are projected (its watermark). The count of this
            # process would lack the facts that running sidecars project meanwhile.
            marks = await projection.watermarks()
            projected, left = sum(mark.number for mark in marks.reached.values()), await _left(journal, marks)
            if not left:
                return projected
            progress(projected, left)
            # What is left belongs to running sidecars; only they project it.
            await asyncio.sleep(LOOK_AGAIN)
    finally:
        await projection.close()
        await journal.close()


async def _left(journal: Journal, marks: Watermarks) -> int:
    """Return about how many facts are not projected yet, for the report of progress; 0 only if none is left."""
    # One turn is enough to learn whether any is left. `behind` does not include the facts of the turns that are
    # returned; each of these turns has at least one.
    changes = await journal.changed(marks, 1)
    return changes.behind + len(changes.turns)


def _at_intervals(progress: Progress) -> Progress:
    # From the start: a rebuild that takes less than a second reports nothing.
    last_report = time.monotonic()

    def report(projected: int, left: int) -> None:
        nonlocal last_report
        # The projector reports each batch, i.e. many times a second; a terminal needs one line a second.
        if time.monotonic() - last_report >= SAY_EVERY:
            last_report = time.monotonic()
            progress(projected, left)

    return report


def _ignored(doing: str, error: str) -> None:
    """Ignore what the engine reports about opening and repairing the file: its errors are also raised."""
