"""The rows of lists in a SQLite file of their own: whatever becomes of it, the lists are whole again."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from sidecar.adapters.migrations import Migration
from sidecar.adapters.record_sqlite import (
    SqliteJournal,
    SqliteProjection,
    discard_projection,
    projected_rows,
    projection_file,
)
from sidecar.adapters.sqlite import Schema, SqliteEngine
from sidecar.adapters.sqlite.opening import PAGE_BYTES
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import EpisodeId, InstanceId, TurnId
from sidecar.core.journal.markers import erasure_of
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_dispatch, a_whole_turn, moment
from tests.support.second_place import a_signer

EVERYTHING = 10_000


class Place:
    """A record in a folder, with its lists."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "record.sqlite"
        self.rows = projection_file(self.path)
        self.reports: list[str] = []
        self._starts = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[OpenedRecord]:
        """Open it as the next process does."""
        self._starts += 1
        journal = await SqliteJournal.open(self.path, InstanceId(f"start-{self._starts}"), _unexpected)
        projection = SqliteProjection(self.path, lambda doing, error: self.reports.append(f"{doing}: {error}"))
        try:
            yield OpenedRecord(journal, projection)
        finally:
            await projection.close()
            await journal.close()

    async def three_turns(self) -> None:
        """Put three turns on record, and in the lists."""
        async with self.opened() as record:
            for number in range(3):
                await record.append(a_whole_turn(f"t{number}", at=number))
            await record.projector.catch_up()

    def rows_in_file(self) -> list[str]:
        """Return the turns that are in the file of lists, by whatever it is read with."""
        connection = apsw.Connection(str(self.rows))
        try:
            return [turn for (turn,) in connection.execute("SELECT turn_id FROM turns ORDER BY turn_id")]
        finally:
            connection.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder without a record."""
    return Place(tmp_path)


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")


def _deleted(rows: Path) -> None:
    rows.unlink()


def _emptied(rows: Path) -> None:
    rows.write_bytes(b"")


def _truncated(rows: Path) -> None:
    with rows.open("r+b") as file:
        file.truncate(PAGE_BYTES * 4)


def _overwritten(rows: Path) -> None:
    with rows.open("r+b") as file:
        file.seek(PAGE_BYTES * 2)
        file.write(os.urandom(PAGE_BYTES * 3))


def _text(rows: Path) -> None:
    rows.write_bytes(b"no database " * 1000)


def _of_another_version(rows: Path) -> None:
    connection = apsw.Connection(str(rows))
    connection.execute("UPDATE schema_migrations SET checksum = 'of another release'")
    connection.close()


def _newer(rows: Path) -> None:
    connection = apsw.Connection(str(rows))
    connection.execute("INSERT INTO schema_migrations VALUES (2, 'of the future', 'x', 'then')")
    connection.close()


@pytest.mark.parametrize(
    "harm",
    [_deleted, _emptied, _truncated, _overwritten, _text, _of_another_version, _newer],
    ids=lambda harm: harm.__name__,
)
async def test_a_file_that_cannot_be_used_is_made_again(place: Place, harm: Callable[[Path], None]) -> None:
    """Lists are whole before anything is projected, and when all of it is."""
    await place.three_turns()
    harm(place.rows)
    async with place.opened() as record:
        for _ in range(2):
            assert [row.turn_id for row in (await record.turns(TurnQuery())).rows] == ["t2", "t1", "t0"]
            await record.projector.catch_up()
        assert record.projector.projected == 9
    assert place.rows_in_file() == ["t0", "t1", "t2"]


async def test_a_file_that_is_damaged_while_it_is_open_is_made_again(place: Place) -> None:
    """One list fails, the next one is whole."""
    await place.three_turns()
    async with place.opened() as record:
        assert (await record.projector.projection.watermarks()).reached
        with place.rows.open("r+b") as file:
            file.seek(PAGE_BYTES)
            file.write(b"\xff" * (place.rows.stat().st_size - PAGE_BYTES))
        with pytest.raises(StoreUnavailable):
            await record.turns(TurnQuery())
        assert [row.turn_id for row in (await record.turns(TurnQuery())).rows] == ["t2", "t1", "t0"]
        await record.projector.catch_up()
    assert place.rows_in_file() == ["t0", "t1", "t2"]


async def test_lists_of_a_record_that_was_restored_are_made_again(place: Place, tmp_path: Path) -> None:
    """The copy is older than the rows: what came after it is in no list, also if as many facts have come since."""
    await place.three_turns()
    shutil.copy(place.path, tmp_path / "copy")
    async with place.opened() as record:
        await record.append(a_whole_turn("lost", at=9))
        await record.projector.catch_up()
    shutil.copy(tmp_path / "copy", place.path)
    async with place.opened() as record:
        assert [row.turn_id for row in (await record.turns(TurnQuery())).rows] == ["t2", "t1", "t0"]
    shutil.copy(tmp_path / "copy", place.path)
    async with place.opened() as record:
        await record.append(a_whole_turn("other", at=9))
        await record.append(a_whole_turn("more", at=10))
        found = [row.turn_id for row in (await record.turns(TurnQuery())).rows]
        assert found == ["more", "other", "t2", "t1", "t0"]


async def test_what_was_not_projected_when_a_process_ended_is_projected_by_the_next(place: Place) -> None:
    """It goes on from its watermark."""
    await place.three_turns()
    async with place.opened() as record:
        await record.append(a_whole_turn("t3", at=3))
    assert place.rows_in_file() == ["t0", "t1", "t2"]
    async with place.opened() as record:
        await record.projector.catch_up()
        assert record.projector.projected == 3
    assert place.rows_in_file() == ["t0", "t1", "t2", "t3"]


async def test_a_database_of_something_else_is_left_alone(place: Place) -> None:
    """There are no lists then; the record is not concerned."""
    schema = Schema("notes", 77, (Migration(1, "notes", "CREATE TABLE notes (text TEXT NOT NULL) STRICT"),))
    await (await SqliteEngine.open(place.rows, schema, _unexpected)).close()
    before = place.rows.read_bytes()
    async with place.opened() as record:
        await record.append(a_whole_turn("a"))
        with pytest.raises(StoreUnavailable, match="is a database of another kind: move it away"):
            await record.turns(TurnQuery())
    assert place.rows.read_bytes() == before


async def test_a_start_does_not_wait_for_the_lists(place: Place) -> None:
    """The file is opened by the first who needs it."""
    async with place.opened() as record:
        await record.append(a_whole_turn("a"))
        assert not place.rows.exists()
        await asyncio.gather(record.turns(TurnQuery()), record.episodes(5), record.projector.step())
        assert place.rows.stat().st_mode & 0o777 == 0o600


async def test_lists_are_projected_while_the_record_is_being_written(place: Place) -> None:
    """A transaction of the record that does not end holds up neither the projector nor a list."""
    await place.three_turns()
    async with place.opened() as record:
        await record.append(a_whole_turn("t3", at=3))
        writing = apsw.Connection(str(place.path))
        writing.execute("BEGIN IMMEDIATE")
        await record.projector.catch_up()
        assert [row.turn_id for row in (await record.turns(TurnQuery())).rows] == ["t3", "t2", "t1", "t0"]
        writing.close()


async def test_the_record_is_written_while_lists_are_being_projected(place: Place) -> None:
    """And the other way round."""
    await place.three_turns()
    async with place.opened() as record:
        writing = apsw.Connection(str(place.rows))
        writing.execute("BEGIN IMMEDIATE")
        await record.append(a_whole_turn("t3", at=3))
        assert [row.turn_id for row in (await record.turns(TurnQuery())).rows] == ["t3", "t2", "t1", "t0"]
        writing.close()


async def test_what_is_discarded_leaves_no_file(place: Place) -> None:
    """For whoever erases what is in a record that no sidecar has open."""
    await place.three_turns()
    assert b"user-1" in place.rows.read_bytes()
    discard_projection(place.path)
    assert not [file for file in place.path.parent.iterdir() if ".lists" in file.name and file.suffix != ".lock"]
    discard_projection(place.path)


async def test_nothing_of_a_user_who_was_erased_is_left_in_the_files(place: Place) -> None:
    """Neither in the file nor in its log, as soon as the projector has taken notice; others are listed as before."""
    async with place.opened() as record:
        for number in range(40):
            await record.append(a_whole_turn(f"t{number:02}", at=number, principal=f"user-{number % 2}-of-two"))
            await record.projector.catch_up()
        assert any(b"user-0-of-two" in file.read_bytes() for file in _files(place.rows))
        turn_ids = [TurnId(f"t{number:02}") for number in range(0, 40, 2)]
        turns = {turn_id: (await record.journal.facts(turn_id)).facts for turn_id in turn_ids}
        erasure = erasure_of(moment(0).date(), turns, "marker", moment(99), a_signer())
        assert erasure is not None
        await record.journal.erase(erasure)

        found = await record.turns(TurnQuery(limit=EVERYTHING))

        assert {row.principal for row in found.rows} == {"", "user-1-of-two"}
        assert {row.principal for row in (await record.episodes(9)).rows} == {"", "user-1-of-two"}
        assert not any(b"user-0-of-two" in file.read_bytes() for file in _files(place.rows))


def _files(rows: Path) -> list[Path]:
    return [file for file in rows.parent.iterdir() if file.name.startswith(rows.name)]


async def test_no_list_reads_more_than_it_shows(place: Place) -> None:
    """Each filter is answered by an index: no list looks at all turns."""
    queries = [
        TurnQuery(),
        TurnQuery(before=(moment(5), a_dispatch().turn_id)),
        TurnQuery(episode_id=EpisodeId("episode-1")),
        TurnQuery(slot=a_whole_turn()[1].slot),  # type: ignore[union-attr]  # the second record of a turn is its child
    ]
    await place.three_turns()
    async with place.opened() as record:
        projection = record.projector.projection
        assert isinstance(projection, SqliteProjection)
        for query in queries:
            plans = await plans_of(projection, query)
            assert plans, query
            for plan in plans:
                assert "SCAN turns" not in plan, plan
                assert "SCAN t\n" not in f"{plan}\n", plan
                assert "TEMP B-TREE" not in plan, plan


async def plans_of(projection: SqliteProjection, query: TurnQuery) -> list[str]:
    """Return how SQLite looks for what a list shows."""
    done: list[tuple[str, Any]] = []

    def noted(cursor: object, statement: str, values: Any) -> bool:
        done.append((statement, values))
        return True

    def explained(connection: apsw.Connection) -> list[str]:
        connection.exec_trace = noted
        projected_rows.turns(connection, query, {})
        connection.exec_trace = None
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {statement}", values) for statement, values in done]
        return [detail for plan in plans for *_, detail in plan]

    return await projection._read(explained)
