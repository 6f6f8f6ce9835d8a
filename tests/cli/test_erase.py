"""`sidecar erase --offline`, as a program, on real files without a sidecar."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection
from sidecar.cli.subagent.erasing import HOW_TO_ERASE_OFFLINE
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import InstanceId
from tests.adapters.records.bench import OpenedRecord
from tests.support.operator_desk import typed
from tests.support.requirement import requirement
from tests.support.signed_files import KEY, LINES, PUBLIC, signing
from tests.support.texts_of_users import ADA, BOB, a_turn_of, words_of

pytestmark = pytest.mark.system

RECORD = "record.sqlite"
ERASE = ("erase", "--offline", "--principal", ADA, "--reason", "their request")


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Settings whose record and checkpoints lie in the test's folder."""
    file = tmp_path / "sidecar.toml"
    (tmp_path / "r").mkdir()
    file.write_text(
        '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'
        f'[record.sqlite]\npath = "{tmp_path}/r/{RECORD}"\n'
        f'[record.checkpoints]\nfile = "{tmp_path}/r/{LINES}"\nkey_file = "{tmp_path}/r/{KEY}"\n'
    )
    return file


def sidecar(settings: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command line; return its exit code, output and errors."""
    command = [sys.executable, "-m", "sidecar", *arguments, "--config", str(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


@asynccontextmanager
async def opened(settings: Path) -> AsyncIterator[OpenedRecord]:
    """Open the record with its lists, as a sidecar does."""
    path = settings.parent / "r" / RECORD
    journal = await SqliteJournal.open(path, InstanceId("one"), _unexpected)
    projection = SqliteProjection(path, _unexpected)
    try:
        yield OpenedRecord(journal, projection)
    finally:
        await projection.close()
        await journal.close()


def _unexpected(doing: str, error: str) -> None:
    raise AssertionError(f"could not {doing}: {error}")


async def write(settings: Path, *turns: list[Record]) -> None:
    """Append turns, each with a checkpoint, and project them."""
    async with opened(settings) as record:
        for turn in turns:
            await record.append(turn)
            await signing(record.journal, settings.parent / "r").look()
        await record.projector.catch_up()


def left(settings: Path, words: list[bytes]) -> list[str]:
    """Return which words stand in which files of the record: database, write-ahead log, lists, conversations, lines."""
    files = [file for file in sorted((settings.parent / "r").iterdir()) if file.is_file()]
    return [f"{word.decode()} in {file.name}" for file in files for word in words if word in file.read_bytes()]


@requirement("SX-38")
async def test_nothing_of_a_user_is_left_in_the_files_and_the_log_verifies(settings: Path) -> None:
    """Record, write-ahead log and lists; the texts of other users stay. The log says who asked, not whose they were."""
    await write(settings, a_turn_of(ADA, "turn-1"), a_turn_of(BOB, "turn-2", 50), a_turn_of(ADA, "turn-3", 100_000))
    assert {each.partition(" in ")[0].encode() for each in left(settings, words_of(ADA))} == set(words_of(ADA))

    preview = sidecar(settings, *ERASE, "--preview")
    code, out, log = sidecar(settings, *ERASE, "--yes")

    assert preview[:2] == (0, "2 turns would lose their content, and all conversations would be removed\n")
    assert (code, out) == (0, "erased the content of 2 turns (6 facts)\nremoved 0 conversations\n")
    assert left(settings, words_of(ADA)) == []
    assert {each.partition(" in ")[0].encode() for each in left(settings, words_of(BOB))} == set(words_of(BOB))
    assert (f"uid {os.getuid()}, offline" in log, "their request" in log, ADA in log) == (True, True, False)
    code, out, _ = sidecar(settings, "verify-log")
    assert (code, out.splitlines()[-1].startswith("whole: 9 facts in 3 turns"), "2 erasures" in out) == (0, True, True)


@requirement("SX-38")
async def test_it_leaves_a_record_that_a_sidecar_has_open_to_that_sidecar(settings: Path) -> None:
    """The lock of the file decides, so that the two never erase at once; the message says which way is open."""
    await write(settings, a_turn_of(ADA, "turn-1"))
    async with opened(settings):
        code, out, errors = sidecar(settings, *ERASE, "--yes")
    assert (code, out) == (78, "")
    assert "is open in another process" in errors
    assert "next: leave out --offline to have that sidecar erase" in errors
    assert left(settings, [ADA.encode()])


async def test_open_turns_are_named_and_nothing_is_erased(settings: Path) -> None:
    """A sidecar that was killed has left one; for programs, as one object."""
    await write(settings, a_turn_of(ADA, "turn-1"), a_turn_of(ADA, "turn-2", 50, ended=False))
    code, out, _ = sidecar(settings, *ERASE, "--yes", "--json")
    told = json.loads(out)
    assert (code, told["open_turns"], told["fact_count"], told["done"]) == (1, ["turn-2"], 0, False)
    assert left(settings, [ADA.encode()])


async def test_conversations_of_the_memory_go_as_well(settings: Path) -> None:
    """They have a file of their own, which is opened under its own lock."""
    await write(settings, a_turn_of(ADA, "turn-1"))
    memory = SqliteMemory(settings.parent / "r" / "conversations.sqlite")
    await memory.open()
    code, _, errors = sidecar(settings, *ERASE, "--yes")
    assert (code, "conversations.sqlite is open in another process" in errors) == (78, True)
    assert left(settings, [ADA.encode()])
    await memory.close()
    assert sidecar(settings, *ERASE, "--yes")[0] == 0


async def test_without_the_key_of_the_record_nothing_is_erased(settings: Path) -> None:
    """A marker that another key has signed would be a finding for ever."""
    await write(settings, a_turn_of(ADA, "turn-1"))
    for name in (KEY, PUBLIC):
        (settings.parent / "r" / name).unlink()
    code, _, errors = sidecar(settings, *ERASE, "--yes")
    assert (code, "checkpoint.key is not there" in errors) == (78, True)
    assert left(settings, [ADA.encode()])
    assert not (settings.parent / "r" / KEY).exists()


def test_a_record_that_is_not_a_file_is_refused(settings: Path) -> None:
    """No file is made where none is; what is in PostgreSQL is a sidecar's to erase."""
    code, _, errors = sidecar(settings, *ERASE, "--preview")
    assert (code, "there is no record at" in errors) == (78, True)
    assert list((settings.parent / "r").iterdir()) == []
    settings.write_text(settings.read_text() + '[record]\ndatabase = "memory"\n')
    code, _, errors = sidecar(settings, *ERASE, "--preview")
    assert (code, errors) == (
        78,
        "record.database is memory: --offline erases in SQLite files; leave it out to ask a sidecar\n",
    )


def test_a_command_that_finds_no_sidecar_names_the_other_way() -> None:
    """Nothing answers; what to do is in the last line."""
    code, said = typed(
        *("--principal", ADA, "--reason", "r", "--target", "unix:/nowhere"), token="token", group="erase"
    )
    assert code == 2
    assert said.endswith(f"next: {HOW_TO_ERASE_OFFLINE}\n")
