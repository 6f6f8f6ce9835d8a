import asyncio
import os
import shutil
from pathlib import Path

import apsw
import pytest

from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem, Migration
from sidecar.adapters.record_sqlite import SqliteJournal, record_schema
from sidecar.adapters.sqlite import Schema, SqliteEngine, Tuning, pending_migrations
from sidecar.adapters.sqlite.backup import back_up
from sidecar.adapters.sqlite.opening import PAGE_BYTES, check_version
from sidecar.core.errors import StoreUnavailable
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId, TurnId
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_whole_turn
from tests.support.requirement import requirement

NOTES = Schema("notes", 77, (Migration(1, "notes", "CREATE TABLE notes (text TEXT NOT NULL) STRICT"),))
COUNT = "SELECT count(*) FROM notes"
FOR_EVER = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")


def _ignored(doing: str, error: str) -> None:
    """The test makes it happen."""


@pytest.mark.parametrize(
    ("linked", "fits"), [("3.51.2", False), ("3.50.7", False), ("3.51.3", True), ("3.100.0", True)]
)
def test_a_sqlite_that_may_lose_data_is_refused(linked: str, fits: bool) -> None:
    """Everything before 3.51.3 has the WAL-reset bug; the one that is linked here does not."""
    check_version()
    if fits:
        check_version(linked)
    else:
        with pytest.raises(DatabaseProblem, match=r"WAL-reset bug.*upgrade apsw"):
            check_version(linked)


async def test_a_file_is_open_in_one_place_only(tmp_path: Path) -> None:
    """The second one is told who holds it; after the first has closed it may open the file."""
    path = tmp_path / "record.sqlite"
    first = await SqliteJournal.open(path, InstanceId("one"), _unexpected)
    with pytest.raises(DatabaseHeld, match="is open in another process"):
        await SqliteJournal.open(path, InstanceId("two"), _unexpected)
    await first.close()
    await (await SqliteJournal.open(path, InstanceId("two"), _unexpected)).close()


@pytest.mark.parametrize("kilobytes", [4, 127, 128, 200, 1100, 2100])
async def test_the_log_of_a_killed_process_is_opened_whatever_its_size(kilobytes: int, tmp_path: Path) -> None:
    """The copy is what a SIGKILL leaves: commits that are in the log only. All of them are there after the start."""
    (tmp_path / "killed").mkdir()
    engine = await SqliteEngine.open(tmp_path / "notes", NOTES, _unexpected, Tuning(checkpoint_pages=2**20))
    log, written = tmp_path / "notes-wal", 0
    while log.stat().st_size < kilobytes * 1024:
        await engine.write(lambda to: to.execute("INSERT INTO notes VALUES (?)", ("x" * 500,)))
        written += 1
    for name in ("notes", "notes-wal"):
        shutil.copy(tmp_path / name, tmp_path / "killed" / name)
    await engine.close()

    engine = await SqliteEngine.open(tmp_path / "killed" / "notes", NOTES, _unexpected)
    assert await engine.read(lambda to: to.execute(COUNT).get) == written
    await engine.close()


async def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    """Folder 0700, files 0600."""
    path = tmp_path / "made" / "record.sqlite"
    await (await SqliteJournal.open(path, InstanceId("one"), _unexpected)).close()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


async def test_a_large_log_that_a_killed_process_left_is_opened(tmp_path: Path) -> None:
    """Over 1 MiB, as after minutes of load: the files of a process that could not close, with all that it committed."""
    running, left = tmp_path / "running", tmp_path / "left"
    engine = await SqliteEngine.open(running / "notes", NOTES, _unexpected)
    for _ in range(3):
        await engine.write(lambda to: to.execute("INSERT INTO notes VALUES (?)", ("x" * 500_000,)))
    left.mkdir()
    for name in ("notes", "notes-wal"):
        (left / name).write_bytes((running / name).read_bytes())
    await engine.close()
    size = (left / "notes-wal").stat().st_size

    opened = await SqliteEngine.open(left / "notes", NOTES, _unexpected)
    count = await opened.read(lambda at: at.execute(COUNT).get)
    await opened.close()

    assert (size > 1024 * 1024, count) == (True, 3)


async def test_every_connection_is_durable(tmp_path: Path) -> None:
    """WAL, FULL, foreign keys on, no checkpoints by writers."""
    engine = await SqliteEngine.open(tmp_path / "notes", NOTES, _unexpected)
    names = ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
    assert await engine.write(lambda to: [to.pragma(name) for name in names]) == ["wal", 2, 1, 0]
    await engine.close()


@pytest.mark.parametrize("content", [b"garbage " * 999, b"SQLite format 3\0" + b"x" * 9999], ids=["text", "header"])
async def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """It says so, and changes nothing."""
    path = tmp_path / "record.sqlite"
    path.write_bytes(content)
    with pytest.raises(DatabaseProblem, match="is damaged, or not a SQLite database: restore a backup"):
        await SqliteJournal.open(path, InstanceId("one"), _ignored)
    assert path.read_bytes() == content


async def test_a_page_that_was_overwritten_is_noticed_at_the_start(tmp_path: Path) -> None:
    """A page in the middle of the file."""
    path = tmp_path / "record.sqlite"
    journal = await SqliteJournal.open(path, InstanceId("one"), _unexpected)
    await OpenedRecord(journal).append(a_whole_turn())
    await journal.close()
    with path.open("r+b") as file:
        file.seek(PAGE_BYTES * 5)
        file.write(os.urandom(PAGE_BYTES))
    with pytest.raises(DatabaseProblem, match="is damaged"):
        await SqliteJournal.open(path, InstanceId("two"), _ignored)


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Another application's tables, and another kind of file of ours."""
    path = tmp_path / "notes.sqlite"
    await (await SqliteEngine.open(path, NOTES, _unexpected)).close()
    with pytest.raises(DatabaseProblem, match="of something else than the record: give another path"):
        await SqliteJournal.open(path, InstanceId("one"), _ignored)
    other = apsw.Connection(str(tmp_path / "theirs.sqlite"))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    with pytest.raises(DatabaseProblem, match="of something else"):
        await SqliteJournal.open(tmp_path / "theirs.sqlite", InstanceId("one"), _ignored)


async def test_steps_are_applied_once_and_never_edited(tmp_path: Path) -> None:
    """A second step is pending until the next start; a newer file and an edited step are refused."""
    path = tmp_path / "notes.sqlite"
    second = Migration(2, "more", "ALTER TABLE notes ADD COLUMN more TEXT")
    newer = Schema("notes", 77, (*NOTES.migrations, second))
    edited = Schema("notes", 77, (Migration(1, "notes", "CREATE TABLE notes (text TEXT) STRICT"),))
    assert pending_migrations(path, newer) == newer.migrations
    await (await SqliteEngine.open(path, NOTES, _unexpected)).close()
    assert pending_migrations(path, newer) == (second,)
    with pytest.raises(DatabaseProblem, match="another version of schema step 0001_notes"):
        await SqliteEngine.open(path, edited, _ignored)
    await (await SqliteEngine.open(path, newer, _unexpected)).close()
    assert pending_migrations(path, newer) == ()
    with pytest.raises(DatabaseProblem, match="has schema version 2, and this sidecar knows 1"):
        await SqliteEngine.open(path, NOTES, _ignored)


async def test_a_step_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Half of it was done."""
    path = tmp_path / "notes.sqlite"
    broken = Schema("notes", 77, (Migration(1, "notes", "CREATE TABLE notes (text TEXT); CREATE NONSENSE"),))
    with pytest.raises(apsw.SQLError):
        await SqliteEngine.open(path, broken, _ignored)
    await (await SqliteEngine.open(path, NOTES, _unexpected)).close()


async def test_what_work_raises_undoes_it(tmp_path: Path) -> None:
    """The next transaction finds nothing of it."""
    engine = await SqliteEngine.open(tmp_path / "notes", NOTES, _unexpected)

    def broken(to: apsw.Connection) -> None:
        to.execute("INSERT INTO notes VALUES ('lost')")
        raise LookupError("as it happens")

    with pytest.raises(LookupError):
        await engine.write(broken)
    assert await engine.read(lambda of: of.execute(COUNT).get) == 0
    await engine.close()


async def test_a_read_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """It would keep the write-ahead log growing. The next read works, and writes went on."""
    told: list[tuple[str, str]] = []
    engine = await SqliteEngine.open(tmp_path / "notes", NOTES, lambda *what: told.append(what))
    reading = asyncio.ensure_future(engine.read(lambda of: of.execute(FOR_EVER).get))
    await engine.write(lambda to: to.execute("INSERT INTO notes VALUES ('kept')"))
    assert not reading.done()
    with pytest.raises(StoreUnavailable, match="it took too long"):
        await reading
    assert await engine.read(lambda of: of.execute(COUNT).get) == 1
    assert told == [("read", "InterruptError")]
    await engine.close()


async def test_a_lock_of_somebody_else_is_waited_for_in_vain(tmp_path: Path) -> None:
    """A shell that holds a transaction: refused after a second, during which the loop goes on."""
    engine = await SqliteEngine.open(tmp_path / "notes", NOTES, _ignored)
    shell = apsw.Connection(str(tmp_path / "notes"))
    shell.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(engine.write(lambda to: to.execute("INSERT INTO notes VALUES ('x')")))
    assert await engine.read(lambda of: of.execute(COUNT).get) == 0
    assert not writing.done()
    with pytest.raises(StoreUnavailable, match="another process holds the database file"):
        await writing
    shell.close()
    await engine.write(lambda to: to.execute("INSERT INTO notes VALUES ('y')"))
    await engine.close()


@requirement("SX-12", "SX-38")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE facts SET body = x'00'",
        "UPDATE facts SET texts = NULL",
        "UPDATE facts SET version = 9 WHERE version = 1",
        "DELETE FROM facts",
        "UPDATE attempt_frames SET frames = x'00'",
        "DELETE FROM attempt_frames",
        "UPDATE turns SET turn_id = 'another'",
        "DELETE FROM turns",
    ],
)
async def test_the_database_itself_refuses_changes(tmp_path: Path, statement: str) -> None:
    """From any connection: facts, frames and turns are append-only by triggers."""
    path = tmp_path / "record.sqlite"
    journal = await SqliteJournal.open(path, InstanceId("one"), _unexpected)
    await OpenedRecord(journal).append(a_whole_turn())
    shell = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError):
        shell.execute(statement)
    shell.close()
    await journal.close()


async def test_a_backup_during_writes_is_a_whole_record(tmp_path: Path) -> None:
    """What was acknowledged before it began is in it; a second instance goes on with it."""
    journal = await SqliteJournal.open(tmp_path / "record.sqlite", InstanceId("one"), _unexpected)
    record = OpenedRecord(journal)
    begun, turns = asyncio.Event(), 0

    async def write() -> None:
        nonlocal turns
        while turns < 60:
            await record.append(a_whole_turn(f"turn-{turns}", at=turns))
            turns += 1
            if turns == 20:
                begun.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        await begun.wait()
        before = turns
        await journal.back_up(tmp_path / "backup.sqlite")
    await journal.close()

    second = await SqliteJournal.open(tmp_path / "backup.sqlite", InstanceId("two"), _unexpected)
    restored = OpenedRecord(second)
    rows = (await restored.turns(TurnQuery(limit=100))).rows
    assert len(rows) >= before
    assert [row.turn_id for row in reversed(rows)] == [f"turn-{number}" for number in range(len(rows))]
    assert await restored.turn(TurnId("turn-0")) is not None
    await restored.append(a_whole_turn("next", at=99))
    await second.close()


def test_a_backup_never_replaces_a_file(tmp_path: Path) -> None:
    """Nor does it leave anything behind; a record that is not there is told as such."""
    source, target = tmp_path / "source", tmp_path / "target"
    with pytest.raises(DatabaseProblem, match="there is no database at"):
        back_up(source, target)
    apsw.Connection(str(source)).execute("CREATE TABLE x (y)")
    target.write_text("precious")
    with pytest.raises(DatabaseProblem, match="exists already"):
        back_up(source, target)
    assert target.read_text() == "precious"
    with pytest.raises(DatabaseProblem, match="cannot be written: Not a directory"):
        back_up(source, target / "backup")
    assert [file.name for file in tmp_path.iterdir() if "unfinished" in file.name] == []


async def test_the_schema_is_what_it_is_expected_to_be(tmp_path: Path) -> None:
    """What the steps make of an empty file: tables, columns that are projections, and a guard for each table."""
    engine = await SqliteEngine.open(tmp_path / "record.sqlite", record_schema(), _unexpected)
    rows = await engine.read(
        lambda of: of.execute(
            "SELECT type, name, tbl_name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
        ).fetchall()
    )
    await engine.close()
    tables = {str(name) for kind, name, _ in rows if kind == "table"}
    assert tables == {
        "attempt_frames", "erasures", "facts", "instances", "markers", "purging", "roots", "schema_migrations", "turns",
        "kept_definitions", "rollout_answers", "rollout_audit", "rollout_audit_markers", "rollout_flags",
        "rollout_replicas", "rollout_transitions", "rollout_unexported", "rollout_version", "rollouts",
    }  # fmt: skip
    guards = {(str(table), str(name).removeprefix(f"{table}_")) for kind, name, table in rows if kind == "trigger"}
    projections = {"instances", "purging", "roots", "schema_migrations"}
    # the state, not its evidence
    projections |= {"rollouts", "rollout_flags", "rollout_replicas", "rollout_unexported", "rollout_version"}
    assert guards == {(table, guard) for table in tables - projections for guard in ("stay", "are_kept")}
