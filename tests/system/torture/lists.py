"""Compares the lists of a record with what its facts give, as its sidecars left them and after a rebuild."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Final

from sidecar.adapters.postgresql import ConnectionTimeouts
from sidecar.adapters.record_postgresql import JournalOptions, PostgresJournal, PostgresProjection
from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection
from sidecar.adapters.record_sqlite.schema import record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.core.executing.stored_record import TurnQuery, TurnRow
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.listing.turn_rows import turn_line
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.operations.record.lists import TurnListReader
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.projection_ports import Projection
from sidecar.operations.record.projector import Projector
from tests.support.sidecar_process import ROOT
from tests.system.torture.checker import Database, PostgresDatabase, SqliteFile

READER: Final = InstanceId("reads-the-lists")
EVERYTHING: Final = 10**6


async def lists_hold(folder: Path, database: Database) -> None:
    """Fail unless the lists show each turn as its facts say; no sidecar may run.

    First as they were left, with the facts that are not projected yet, then after `sidecar projection rebuild`,
    without any such facts.
    """
    expected = from_facts(database)
    assert expected
    assert await _listed(database, with_tail=True) == expected
    await _rebuild(folder)
    assert await _listed(database, with_tail=False) == expected


def from_facts(database: Database) -> Mapping[TurnId, TurnRow]:
    """Return the rows that the facts give."""
    lines = [turn_line(turn_id, list(facts)) for turn_id, facts in groupby(database.facts(), lambda fact: fact.turn_id)]
    return {line.turn_id: line.row for line in lines if line.row is not None}


async def _listed(database: Database, *, with_tail: bool) -> Mapping[TurnId, TurnRow]:
    async with _opened(database) as (journal, projection):
        if with_tail:
            projector = Projector(journal, projection, MeasuringRecorder(Metrics()))
            rows = (await TurnListReader(projector, most_changes=EVERYTHING).turns(TurnQuery(limit=EVERYTHING))).rows
        else:
            rows = tuple(await projection.turns(TurnQuery(limit=EVERYTHING), {}))
    return {row.turn_id: row for row in rows}


@asynccontextmanager
async def _opened(database: Database) -> AsyncIterator[tuple[Journal, Projection]]:
    if isinstance(database, SqliteFile):
        engine = await SqliteEngine.open(database.path, record_schema(), lambda doing, error: None)
        lists = SqliteProjection(database.path, lambda doing, error: None)
        try:
            yield SqliteJournal(engine, READER), lists
        finally:
            await lists.close()
            await engine.close()
        return
    assert isinstance(database, PostgresDatabase)
    dsn, limits = database.server.dsn(database.name), ConnectionTimeouts()
    journal = PostgresJournal(dsn, READER, JournalOptions(limits))
    projection = PostgresProjection(dsn, READER, limits)
    try:
        yield journal, projection
    finally:
        await projection.close()
        await journal.close()


async def _rebuild(folder: Path) -> None:
    asking = [sys.executable, "-m", "sidecar", "projection", "rebuild", "--config", str(folder / "sidecar.toml")]
    process = await asyncio.create_subprocess_exec(
        *asking, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
