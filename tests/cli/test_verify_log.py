"""`sidecar verify-log` over real files: whole, tampered with row by row, shortened, copied, and being written."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from sidecar.adapters.record_postgresql import open_postgres_journal
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.identifiers import InstanceId
from tests.adapters.records.bench import OpenedRecord
from tests.support.alterations import ALTERATIONS, first_part, second_part
from tests.support.record_builders import a_whole_turn
from tests.support.requirement import requirement
from tests.support.signed_files import LINES, PUBLIC, RECORD, shorten, signing, write, written
from tests.support.tampering import PostgresTampering, SqliteTampering
from tests.support.verified_records import findings, over, run


@pytest.fixture
def folder(signed_folder: Path) -> Path:
    """Return a folder with the record of four turns by two sidecars, and its second place."""
    return signed_folder


@requirement("SX-39", "SX-38")
def test_a_whole_log_is_said_to_be_whole(folder: Path) -> None:
    """What was looked at, in one line."""
    assert run(*over(folder)) == (
        0,
        "whole: 14 facts in 4 turns under 2 running roots, 0 audit rows, 5 checkpoints, "
        "0 retention markers, 0 erasures\n",
        "",
    )


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_alteration_of_the_record_is_named(folder: Path, name: str) -> None:
    """Exit code 1, findings of these kinds and no others, and a sentence that says what and where."""
    alter, kinds, text = ALTERATIONS[name]
    record = SqliteTampering(folder / RECORD)
    asyncio.run(alter(record))  # type: ignore[arg-type]  # a coroutine, all of them
    record.close()

    code, found = findings(folder)

    assert code == 1
    assert any(text in one["text"] for one in found), [one["text"] for one in found]
    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]


@requirement("SX-38", "SX-39")
def test_frames_are_outside_of_what_is_covered(folder: Path) -> None:
    """They are for replay, and may be altered without a word; docs/record-integrity.md says so."""
    record = SqliteTampering(folder / RECORD)
    record.connection.execute("UPDATE attempt_frames SET frames = x'00'")
    record.close()
    assert findings(folder) == (0, [])


# --- the second place, and markers


def test_findings_are_one_line_each(folder: Path) -> None:
    """As text: the kind, the sentence, and at the end how many."""
    record = SqliteTampering(folder / RECORD)
    asyncio.run(record.set_turn("turn-2", called=0))
    record.close()
    code, out, _ = run(*over(folder))
    first, last = out.splitlines()
    assert code == 1
    assert first == "index_altered: turn turn-2 is listed with another episode, expiry or end: its facts say otherwise"
    assert last.startswith("1 findings: 14 facts in 4 turns")


@requirement("SX-38")
def test_a_log_verifies_while_it_is_written_and_as_a_backup(folder: Path, tmp_path: Path) -> None:
    """Beside an open record, with turns after the last checkpoint; and a backup in a folder nobody may write to."""
    backup = tmp_path / "backup"
    backup.mkdir()

    async def beside() -> tuple[int, str, str]:
        async with written(folder, [8], "third") as record:
            await record.append(a_whole_turn("turn-9", at=90))
            assert isinstance(record.journal, SqliteJournal)
            await record.journal.back_up(backup / RECORD)
            return await asyncio.to_thread(run, *over(folder))

    code, out, _ = asyncio.run(beside())
    note, last = out.splitlines()
    assert code == 0
    assert note == (
        "note: 3 facts or rows of instance third in turns of 2026-03-01 come after the last checkpoint: "
        "only links between them protect them"
    )
    assert last.startswith("whole: 20 facts in 6 turns under 3 running roots, 0 audit rows, 6 checkpoints")

    for name in (LINES, PUBLIC):
        shutil.copy(folder / name, backup / name)
    before = sorted(path.name for path in backup.iterdir())
    backup.chmod(0o500)
    try:
        code, out, _ = run(*over(backup))
    finally:
        backup.chmod(0o700)
    assert (code, out.splitlines()[1][:5], sorted(path.name for path in backup.iterdir())) == (0, "whole", before)


@requirement("SX-38")
def test_a_log_verifies_after_retention(folder: Path) -> None:
    """The day is gone, with a marker for each sidecar; what comes after it verifies."""
    assert asyncio.run(shorten(folder, 91)) == 4
    asyncio.run(write(folder, [8], "third"))
    code, out, _ = run(*over(folder))
    assert (code, out) == (
        0,
        "whole: 3 facts in 1 turns under 1 running roots, 0 audit rows, 8 checkpoints, "
        "2 retention markers, 0 erasures\n",
    )


def test_what_it_could_not_know_is_a_note(folder: Path) -> None:
    """Without checkpoints; the exit code is that of what could be known."""
    code, out, _ = run("--sqlite", str(folder / RECORD))
    assert code == 0
    assert out.startswith("note: no checkpoints were given: ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "say where the record is: --sqlite PATH"),
        (["--sqlite", "absent.db"], "absent.db does not exist"),
        (["--sqlite", LINES], "cannot be read as a SQLite database"),
        (["--sqlite", RECORD, "--checkpoints", LINES], "give checkpoints and public keys together"),
        (["--sqlite", RECORD, "--checkpoints", "absent", "--public-key", PUBLIC], "absent cannot be read"),
        (["--sqlite", RECORD, "--checkpoints", LINES, "--public-key", LINES], "holds no Ed25519 public key"),
    ],
)
def test_what_cannot_be_read_is_told_apart_from_findings(folder: Path, arguments: list[str], text: str) -> None:
    """Exit code 2, and which file."""
    named = [value if value.startswith("--") else str(folder / value) for value in arguments]
    code, out, err = run(*named)
    assert (code, out) == (2, "")
    assert err.startswith("the log cannot be verified: ")
    assert text in err


def test_the_help_teaches() -> None:
    """What it needs, what it cannot see, and the exit codes."""
    code, out, _ = run("--help")
    said = " ".join(out.replace("│", " ").split())
    assert code == 0
    assert (
        "sidecar verify-log --sqlite backup.db --checkpoints checkpoints.jsonl --public-key checkpoint.key.pub" in said
    )
    assert "Exit codes: 0 intact, 1 findings, 2 something cannot be read." in said


# --- PostgreSQL


async def _in_postgresql(postgres_dsn: str, tmp_path: Path) -> list[str]:
    """Write the same record to PostgreSQL, with its second place; return the arguments for it."""
    for instance, part in (("first", first_part), ("second", second_part)):
        journal = await open_postgres_journal(postgres_dsn, InstanceId(instance))
        await part(OpenedRecord(journal), signing(journal, tmp_path))
        await journal.close()
    (tmp_path / "dsn").touch(0o600)
    (tmp_path / "dsn").write_text(postgres_dsn)
    return ["--postgresql-dsn-file", str(tmp_path / "dsn"), *over(tmp_path)[2:]]


IN_POSTGRESQL: Final[Mapping[str, set[str]]] = {
    "an owner": {"fact_altered", "facts_reordered", "root_altered", "root_contradicted", "root_cut"},
}
"""Kinds of findings where facts are numbered by instance: one that is given to another gets among that one's own."""


@pytest.mark.system
@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", ["nothing", *ALTERATIONS])
async def test_an_alteration_of_the_record_in_postgresql_is_named(postgres_dsn: str, tmp_path: Path, name: str) -> None:
    """The same table, on a real server."""
    arguments = await _in_postgresql(postgres_dsn, tmp_path)
    if name != "nothing":
        alter, kinds, text = ALTERATIONS[name]
        kinds = frozenset(IN_POSTGRESQL.get(name, kinds))
        record = await PostgresTampering.opened(postgres_dsn)
        await alter(record)
        await record.connection.close()

    code, out, err = await asyncio.to_thread(run, *arguments, "--json")

    found = json.loads(out)["findings"]
    if name == "nothing":
        assert (code, found, err) == (0, [], "")
        return
    assert any(text in one["text"] for one in found), [one["text"] for one in found]
    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]
