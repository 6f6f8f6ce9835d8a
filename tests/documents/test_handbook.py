"""The commands of the handbook's backup and restore, run as they are shown: on SQLite, and on a real PostgreSQL."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from sidecar.adapters.record_postgresql import open_postgres_journal
from sidecar.core.identifiers import InstanceId
from tests.adapters.records.bench import OpenedRecord
from tests.architecture.reading import REPOSITORY
from tests.documents.blocks import blocks
from tests.support.postgres import PostgresServer
from tests.support.record_builders import a_whole_turn
from tests.support.requirement import requirement
from tests.support.signed_files import signing, write

pytestmark = pytest.mark.system

SETTINGS: Final = """
[definitions]
path = "{definitions}"
[dispatch]
fan_out_cap = 3
{record}
[record.checkpoints]
file = "checkpoints/checkpoints.jsonl"
key_file = "checkpoints/checkpoint.key"
"""
SQLITE: Final = '[record.sqlite]\npath = "record/record.sqlite"\n'
POSTGRESQL: Final = '[record]\ndatabase = "postgresql"\n[record.postgresql]\ndsn_file = "record-dsn"\n'


def commands(*mentions: str) -> str:
    """Return the block of the page that mentions all of these."""
    (found,) = (
        each.text
        for each in blocks()
        if each.page == "docs/handbook.md" and all(word in each.text for word in mentions)
    )
    return found


async def run(folder: Path, text: str, path: str = "") -> str:
    """Run a block as a person types it, in a folder; every command has to succeed."""
    programs = [str(Path(sys.executable).parent), *filter(None, [path]), os.environ["PATH"]]
    ran = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-e"],
        input=text,
        cwd=folder,
        env={**os.environ, "PATH": ":".join(programs)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def prepared(folder: Path, record: str) -> None:
    """Make the folders that the commands name, and the settings."""
    for name in ("record", "checkpoints", "backup"):
        (folder / name).mkdir(mode=0o700)
    text = SETTINGS.format(definitions=REPOSITORY / "examples" / "config", record=record)
    (folder / "sidecar.toml").write_text(text, encoding="utf-8")


@requirement("SX-38")
async def test_a_sqlite_record_is_backed_up_and_restored_as_shown(tmp_path: Path) -> None:
    """What came after the backup is lost, and the last command says so and exits with 0."""
    prepared(tmp_path, SQLITE)
    place = tmp_path / "checkpoints"
    await write(place, [1, 2])  # the record lies beside its checkpoints there
    (place / "record.db").rename(tmp_path / "record" / "record.sqlite")
    saved = await run(tmp_path, commands("sidecar backup"))
    (tmp_path / "record" / "record.sqlite").rename(place / "record.db")
    await write(place, [3])
    (place / "record.db").rename(tmp_path / "record" / "record.sqlite")

    said = await run(tmp_path, commands("cp backup/record.sqlite"))

    assert "whole: 6 facts in 2 turns" in saved
    assert "lost: facts of instance first" in said
    assert "facts 7 to 9 of instance first" in said
    assert "disk of node 7 failed on 3 March" in said
    assert "whole: 6 facts in 2 turns" in said


@requirement("SX-38")
async def test_a_postgresql_record_is_backed_up_and_restored_as_shown(tmp_path: Path, postgres: PostgresServer) -> None:
    """Into an empty database, with the tools of PostgreSQL."""
    prepared(tmp_path, POSTGRESQL)
    before, after = postgres.new_database(), postgres.new_database()
    dsn = tmp_path / "record-dsn"
    dsn.touch(0o600)
    dsn.write_text(postgres.dsn(before), encoding="utf-8")
    journal = await open_postgres_journal(postgres.dsn(before), InstanceId("first"))
    try:
        record, looks = OpenedRecord(journal), signing(journal, tmp_path / "checkpoints")
        await record.append(a_whole_turn("turn-1"))
        await looks.look()
        await run(tmp_path, commands("pg_dump"), str(postgres.binaries))
        await record.append(a_whole_turn("turn-2", at=10))
        await looks.look()
    finally:
        await journal.close()
    dsn.write_text(postgres.dsn(after), encoding="utf-8")

    said = await run(tmp_path, commands("pg_restore"), str(postgres.binaries))

    assert "facts 4 to 6 of instance first" in said
    assert "database lost on 3 March" in said
    assert "whole: 3 facts in 1 turns" in said
    for name in (before, after):
        postgres.sql(f"drop database {name} with (force)")
