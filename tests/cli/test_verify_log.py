"""`sidecar verify-log` over real files: whole, tampered with row by row, shortened, copied, and being written."""

import asyncio
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.testing import CliRunner

from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.adapters.record_postgresql import open_postgres_journal
from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.adapters.rollout_sqlite import SqliteRollouts
from sidecar.cli.record.source import RecordSource
from sidecar.cli.record.verify_command import VerifyLog, add_verify_log
from sidecar.cli.record.verify_log import verify_log
from sidecar.composition.record.verification import record_source, verifying
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.lines import Statement, line_from, line_hash, line_text, signed_line
from sidecar.settings import read_settings
from tests.adapters.records.bench import OpenedRecord
from tests.adapters.rollouts.building import a_write, an_event
from tests.support.alterations import ALTERATIONS, end_written_anew, first_part, second_part
from tests.support.record_builders import a_whole_turn
from tests.support.requirement import requirement
from tests.support.second_place import SettableClock
from tests.support.signed_files import KEY, LINES, PUBLIC, RECORD, change_lines, erase, shorten, signing, write, written
from tests.support.tampering import PostgresTampering, SqliteTampering


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the record of four turns by two sidecars, and its second place; for copying."""
    folder = tmp_path_factory.mktemp("original")

    async def write_both() -> None:
        for instance, part in (("first", first_part), ("second", second_part)):
            async with written(folder, [], instance) as record:
                await part(record, signing(record.journal, folder))

    asyncio.run(write_both())
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """Return a copy."""
    return shutil.copytree(original, tmp_path / "copy")


def run(*arguments: str) -> tuple[int, str, str]:
    """Run the command as somebody would type it; return exit code, output and errors."""
    app = typer.Typer()
    app.callback()(lambda: None)

    def verify(source: RecordSource, as_json: bool) -> int:
        import sys  # noqa: PLC0415 - the runner replaces the streams while the command runs

        return verify_log(source, verifying(), sys.stdout, sys.stderr, as_json=as_json)

    add_verify_log(app, VerifyLog(lambda file: record_source(read_settings(file, {})), verify))
    done = CliRunner().invoke(app, ["verify-log", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def over(folder: Path, *more: str) -> list[str]:
    """Return the arguments for a folder."""
    return [
        *("--sqlite", str(folder / RECORD)),
        *("--checkpoints", str(folder / LINES)),
        *("--public-key", str(folder / PUBLIC), *more),
    ]


def findings(folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings of a folder."""
    code, out, err = run(*over(folder, "--json"))
    assert err == ""
    return code, json.loads(out)["findings"]


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


def _signed_anew(folder: Path) -> None:
    """Whoever took over the machine has another key, and goes on in our file."""
    (folder / KEY).unlink()
    shutil.copy(folder / PUBLIC, folder / "kept.pub")
    (folder / PUBLIC).unlink()
    asyncio.run(write(folder, [9], "third"))
    shutil.copy(folder / "kept.pub", folder / PUBLIC)


def _lines(folder: Path, *which: int) -> None:
    lines = (folder / LINES).read_bytes().splitlines(keepends=True)
    (folder / LINES).write_bytes(b"".join(lines[each - 1] for each in which))


def _line_made_by_another(folder: Path) -> None:
    """The last line says what somebody wants, and is linked and signed by a key of theirs."""
    line = line_from((folder / LINES).read_bytes().splitlines()[-1])
    assert line is not None
    said = Statement(kind=line.kind, instance=line.instance, day=line.day, number=2, root="0" * 64, time=line.time)
    theirs = signed_line(said, line.sequence, line.previous, read_or_make_signer(folder / "their.key"))
    _lines(folder, 1, 2, 3, 4)
    with (folder / LINES).open("ab") as file:
        file.write(line_text(theirs) + b"\n")


def _signed_after_an_alteration(folder: Path) -> None:
    """The record was altered, and somebody who has the key signs what it gives now."""
    record = SqliteTampering(folder / RECORD)
    asyncio.run(end_written_anew(record, with_root=True))
    root = bytes(asyncio.run(record.scalar("SELECT root FROM roots WHERE number = 11")))
    record.close()
    last = (folder / LINES).read_bytes().splitlines()[3]
    line = line_from(last)
    assert line is not None
    said = Statement(kind=line.kind, instance=line.instance, day=line.day, number=11, root=root.hex(), time=line.time)
    again = signed_line(said, 5, line_hash(last), read_or_make_signer(folder / KEY))
    _lines(folder, 1, 2, 3, 4)
    with (folder / LINES).open("ab") as file:
        file.write(line_text(again) + b"\n")


def _removed(*statements: str, days: float = 91, **key: str) -> Callable[[Path], None]:
    """Return: retention removes everything; then statements, as somebody else gives them."""

    def work(folder: Path) -> None:
        assert asyncio.run(shorten(folder, days, **key)) == 4
        record = SqliteTampering(folder / RECORD)
        for statement in statements:
            record.connection.execute(statement)
            assert record.connection.changes()
        record.close()

    return work


SECOND_PLACE: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "a line changed": (
        lambda folder: change_lines(folder, b'"number":6', b'"number":5'),
        {"checkpoint_altered"},
        "line 2 of the checkpoints was altered",
    ),
    "a line taken out": (
        lambda folder: _lines(folder, 1, 3, 4, 5),
        {"checkpoint_missing"},
        "lines 2 to 2 of the checkpoints were removed",
    ),
    "two lines exchanged": (
        lambda folder: _lines(folder, 1, 3, 2, 4, 5),
        {"checkpoint_missing", "checkpoint_altered"},
        "line 2 of the checkpoints comes after line 3: lines were moved",
    ),
    "a line replaced": (
        _line_made_by_another,
        {"checkpoint_other_key"},
        "line 5 of the checkpoints is signed with key",
    ),
    "lines signed with another key": (
        _signed_anew,
        {"checkpoint_other_key"},
        "line 6 of the checkpoints is signed",
    ),
    "a line signed again after an alteration": (
        _signed_after_an_alteration,
        {"root_contradicted"},
        "line 5 of the checkpoints has another root than a line before it for the first 11 facts of instance first",
    ),
    "a marker that others signed": (
        _removed(key="theirs.key", lines="theirs.jsonl"),
        {"marker_forged", "root_cut"},
        "the retention marker of instance first for 2026-03-01 was forged or altered: it is by an unknown key",
    ),
    "a marker that is not in the second place": (
        _removed(lines="elsewhere.jsonl"),
        {"marker_misfit"},
        "the retention marker of instance first for 2026-03-01 is not in the checkpoint files",
    ),
    "a marker changed": (
        _removed("UPDATE markers SET body = replace(body, '\"number\":11', '\"number\":9') WHERE instance = 'first'"),
        {"marker_forged", "root_cut"},
        "the retention marker of instance first for 2026-03-01 was forged or altered: its signature does not fit",
    ),
    "a marker taken out": (
        _removed("DELETE FROM markers WHERE instance = 'second'"),
        {"root_cut"},
        "facts of instance second in turns of 2026-03-01 are missing: 0 are there, a signed checkpoint has 3",
    ),
}


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", SECOND_PLACE)
def test_an_alteration_of_the_second_place_or_of_a_marker_is_named(folder: Path, name: str) -> None:
    """In the same way."""
    tamper, kinds, text = SECOND_PLACE[name]
    tamper(folder)

    code, found = findings(folder)

    assert code == 1
    assert any(text in one["text"] for one in found), [one["text"] for one in found]
    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]


def _erased(*statements: str, key: str = KEY, lines: str = LINES) -> Callable[[Path], None]:
    """Return: the texts of the user are erased; then statements, as somebody else gives them."""

    def work(folder: Path) -> None:
        asyncio.run(erase(folder, key, lines))
        record = SqliteTampering(folder / RECORD)
        for statement in statements:
            record.connection.execute(statement)
            assert record.connection.changes()
        record.close()

    return work


ERASURES: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "nothing": (_erased(), set(), ""),
    "a marker that others signed": (
        _erased(key="theirs.key", lines="theirs.jsonl"),
        {"marker_forged", "texts_removed"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 was forged or altered: it is by an unknown key",
    ),
    "a marker that is not in the second place": (
        _erased(lines="elsewhere.jsonl"),
        {"marker_misfit"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 is not in the checkpoint files",
    ),
    "a marker changed": (
        _erased("UPDATE erasures SET body = replace(body, '\"facts\":14', '\"facts\":15')"),
        {"marker_forged", "texts_removed"},
        "the texts of fact 1 of turn turn-1, and of 13 more of that day, were removed",
    ),
    "a marker taken out": (
        _erased("DELETE FROM erasures"),
        {"texts_removed"},
        "were removed, and no marker of an erasure covers them",
    ),
    "another fact put under the marker": (
        _erased("UPDATE facts SET erased_under = NULL WHERE number = 3"),
        {"texts_removed", "marker_misfit"},
        "the marker erasure-1 of an erasure in turns of 2026-03-01 covers 14 facts, and 13 are there",
    ),
    "texts put back": (
        _erased("UPDATE facts SET texts = x'00', salt = x'00' WHERE number = 3"),
        {"fact_unreadable", "marker_misfit"},
        "covers 14 facts, and 13 are there",
    ),
    "the digest of erased texts": (
        _erased("UPDATE facts SET texts_digest = x'00' WHERE number = 3"),
        {"fact_altered"},
        "fact 3 of turn turn-1 (turn_ended) was altered",
    ),
}


@requirement("SX-38")
@pytest.mark.parametrize("name", ERASURES)
def test_texts_are_gone_only_where_a_signed_marker_says_so(folder: Path, name: str) -> None:
    """A record whose texts were erased verifies; what somebody else makes of it is named."""
    tamper, kinds, text = ERASURES[name]
    tamper(folder)

    code, found = findings(folder)

    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]
    assert code == bool(kinds)
    assert any(text in one["text"] for one in found) or not kinds, [one["text"] for one in found]


AUDIT: dict[str, tuple[str, set[str], str]] = {
    "nothing": ("", set(), ""),
    "a row altered": (
        "UPDATE rollout_audit SET body = replace(body, 'ramped', 'killed') WHERE number = 2",
        {"audit_altered"},
        "row 2 of the audit of rollouts was altered",
    ),
    "a row taken out": (
        "DELETE FROM rollout_audit WHERE number = 2",
        {"audit_missing"},
        "rows 2 to 2 of the audit of rollouts are missing",
    ),
    "the end cut off": (
        "DELETE FROM rollout_audit WHERE number > 2; "
        "UPDATE rollout_version SET last_number = 2, last_link = (SELECT link FROM rollout_audit WHERE number = 2)",
        {"audit_missing"},
        "it ends at row 2, a signed checkpoint has 3",
    ),
    "all of it written anew": (
        "UPDATE rollout_audit SET link = 'x' WHERE number = 3; UPDATE rollout_version SET last_link = 'x'",
        {"audit_altered", "audit_contradicted"},
        "row 3 of the audit of rollouts: the record and a signed checkpoint differ",
    ),
}


@requirement("SX-38")
@pytest.mark.parametrize("name", AUDIT)
def test_an_alteration_of_the_audit_of_rollouts_is_named(folder: Path, name: str) -> None:
    """Three rows, the newest of which is signed."""

    async def audited() -> None:
        async with written(folder, [], "third") as record:
            assert isinstance(record.journal, SqliteJournal)
            rollouts = SqliteRollouts(record.journal.engine, InstanceId("third"), SettableClock())
            for number in (1, 2, 3):
                await rollouts.write(a_write(number, events=(an_event("ramped"),)))
            await signing(record.journal, folder, rollouts).look()

    asyncio.run(audited())
    statement, kinds, text = AUDIT[name]
    record = SqliteTampering(folder / RECORD)
    if statement:
        record.connection.execute(statement)
    record.close()

    code, found = findings(folder)

    assert (code, {one["kind"] for one in found}) == (bool(kinds), kinds), [one["text"] for one in found]
    assert any(text in one["text"] for one in found) or not kinds


def test_facts_that_are_there_beside_the_marker_of_their_removal_are_named(folder: Path) -> None:
    """Somebody puts the record of before into the place of the shortened one, with the markers of the latter."""
    before = shutil.copytree(folder, folder / "before")
    _removed()(folder)
    record = SqliteTampering(before / RECORD)
    record.connection.execute("ATTACH ? AS shortened", (str(folder / RECORD),))
    record.connection.execute("INSERT INTO markers SELECT * FROM shortened.markers")
    record.close()
    shutil.copy(before / RECORD, folder / RECORD)

    code, found = findings(folder)

    assert (code, {one["kind"] for one in found}) == (1, {"marker_misfit"})
    assert found[0]["text"].endswith("says that its facts were removed, and 11 are there")


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
        (["--sqlite", "absent.db"], "absent.db is not there"),
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
    assert "Exit codes: 0 whole, 1 findings, 2 something cannot be read." in said


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
