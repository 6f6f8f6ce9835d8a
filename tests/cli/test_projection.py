"""`sidecar projection rebuild`, as a program, on real files."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection, projection_file
from sidecar.core.executing.stored_record import TurnQuery
from sidecar.core.identifiers import InstanceId
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_whole_turn

pytestmark = pytest.mark.system

TURNS = [f"turn-{number}" for number in range(50)]
FACTS = 3 * len(TURNS)


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Settings whose record lies in the test's folder."""
    file = tmp_path / "sidecar.toml"
    file.write_text(
        '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'
        f'[record.sqlite]\npath = "{tmp_path}/r/record.sqlite"\n'
    )
    return file


def sidecar(*arguments: object) -> tuple[int, str]:
    """Run the command line; return its exit code and what it printed."""
    command = [sys.executable, "-m", "sidecar", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


@asynccontextmanager
async def opened(path: Path, instance: str) -> AsyncIterator[OpenedRecord]:
    """Open a record with its lists, as a sidecar does."""
    journal = await SqliteJournal.open(path, InstanceId(instance), _unexpected)
    projection = SqliteProjection(path, _unexpected)
    try:
        yield OpenedRecord(journal, projection)
    finally:
        await projection.close()
        await journal.close()


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")


async def a_record(settings: Path) -> Path:
    """Return a record whose lists have a wrong row, and lack another."""
    path = settings.parent / "r" / "record.sqlite"
    async with opened(path, "one") as kept:
        for number, turn in enumerate(TURNS):
            await kept.append(a_whole_turn(turn, at=number))
        await kept.projector.catch_up()
    rows = apsw.Connection(str(projection_file(path)))
    rows.execute("UPDATE turns SET principal = 'another' WHERE turn_id = 'turn-1'")
    rows.execute("DELETE FROM turns WHERE turn_id = 'turn-2'")
    rows.close()
    return path


async def listed(path: Path) -> list[tuple[str, str]]:
    """Return turns with their users, as lists show them."""
    async with opened(path, "two") as kept:
        found = await kept.turns(TurnQuery(limit=99))
    return [(row.turn_id, row.principal) for row in reversed(found.rows)]


async def test_lists_are_derived_anew(settings: Path) -> None:
    """Whatever was in them."""
    record = await a_record(settings)
    assert len(await listed(record)) == len(TURNS) - 1
    assert sidecar("projection", "rebuild", "--config", settings) == (0, f"rebuilt from {FACTS} facts\n")
    assert await listed(record) == [(turn, "user-1") for turn in TURNS]


async def test_a_program_is_told_in_json(settings: Path) -> None:
    """The last line says that it is done."""
    await a_record(settings)
    code, said = sidecar("projection", "rebuild", "--json", "--config", settings)
    assert (code, json.loads(said.splitlines()[-1])) == (0, {"facts": FACTS, "left": 0, "done": True})


async def test_a_record_that_a_sidecar_has_open_is_left_to_it(settings: Path) -> None:
    """It holds the lock; the rows stay as they are, and the message says how to rebuild them all the same."""
    record = await a_record(settings)
    async with opened(record, "serving"):
        before = projection_file(record).read_bytes()
        code, said = sidecar("projection", "rebuild", "--config", settings)
    assert (code, "is open in another process" in said) == (78, True)
    assert said.splitlines()[-1].startswith("next: stop the sidecar, run this again and start the sidecar; or stop it")
    assert projection_file(record).read_bytes() == before


async def test_removed_files_are_made_again_by_the_sidecar_that_is_started_next(settings: Path) -> None:
    """The other way that the message names: no command, and the lists are whole."""
    record = await a_record(settings)
    for file in record.parent.glob(f"{projection_file(record).name}*"):
        file.unlink()
    assert await listed(record) == [(turn, "user-1") for turn in TURNS]


def test_without_a_record_there_is_nothing_to_rebuild(settings: Path, tmp_path: Path) -> None:
    """No file is made; in memory lists are made whenever they are asked for."""
    code, said = sidecar("projection", "rebuild", "--config", settings)
    assert (code, said) == (78, f"record.sqlite: there is no record at {tmp_path}/r/record.sqlite\n")
    assert not (tmp_path / "r").exists()
    settings.write_text(settings.read_text() + '[record]\ndatabase = "memory"\n')
    code, said = sidecar("projection", "rebuild", "--config", settings)
    assert (code, said) == (78, "record.database is memory: there is nothing to rebuild\n")
