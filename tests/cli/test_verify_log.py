"""`sidecar verify-log` over real files: whole, tampered with row by row, shortened, copied, and being written."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer
from typer.testing import CliRunner

from sidecar.adapters.checkpoints import CheckpointFile, read_or_make_signer
from sidecar.adapters.record_postgresql import open_postgres_record
from sidecar.cli.record.source import RecordSource
from sidecar.cli.record.verify_command import VerifyLog, add_verify_log
from sidecar.cli.record.verify_log import verify_log
from sidecar.composition.record.verification import record_source, verifying
from sidecar.core.verifying.lines import checkpoint_of
from sidecar.core.identifiers import InstanceId
from sidecar.settings import read_settings
from tests.support.record_builders import BEGIN, a_whole_turn
from tests.support.requirement import requirement
from tests.support.signed_files import KEY, LINES, PUBLIC, RECORD, attack, change_lines, shorten, write, written

CHILD = "turn-2-child-0"
EVENTS = f"sub_agent_events WHERE child_id = '{CHILD}'"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the record of three turns, and its second place; for copying."""
    folder = tmp_path_factory.mktemp("original")
    asyncio.run(write(folder, [1, 2, 3]))
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
        "whole: 6 children with 36 events in 3 turns, 6 links in 1 running roots, 3 checkpoints, 0 retention markers\n",
        "",
    )


def sql(*statements: str) -> Callable[[Path], None]:
    """Return an attack that consists of statements."""
    return lambda folder: attack(folder, *statements)


def _no_child(*more: str) -> Callable[[Path], None]:
    return sql("PRAGMA foreign_keys = OFF", f"DELETE FROM {EVENTS}", *more)


def _signed_anew(folder: Path) -> None:
    """Whoever took over the machine has another key, and goes on in our file."""
    (folder / KEY).unlink()
    shutil.copy(folder / PUBLIC, folder / "kept.pub")
    (folder / PUBLIC).unlink()
    asyncio.run(write(folder, [4], "second"))
    shutil.copy(folder / "kept.pub", folder / PUBLIC)


def _line_removed(folder: Path) -> None:
    lines = (folder / LINES).read_bytes().splitlines(keepends=True)
    (folder / LINES).write_bytes(lines[0] + lines[2])


def _forged_marker(folder: Path) -> None:
    """Everything old is removed, as if 100 days had passed, under a marker that somebody else signed."""
    assert asyncio.run(shorten(folder, 100, key="theirs.key", lines="theirs.jsonl")) == 6


ATTACKS: dict[str, tuple[Callable[[Path], None], set[str], str]] = {
    "event altered": (
        sql(f"UPDATE sub_agent_events SET summary = 'x' WHERE child_id = '{CHILD}' AND sequence = 3"),
        {"event_altered"},
        f"event 3 (agent.subagent_attempt) of child {CHILD} was altered",
    ),
    "event missing in the middle": (
        sql(f"DELETE FROM {EVENTS} AND sequence = 3"),
        {"event_missing"},
        f"event 3 of child {CHILD} missing",
    ),
    "two events swapped": (
        sql(
            f"UPDATE sub_agent_events SET sequence = 99 WHERE child_id = '{CHILD}' AND sequence = 2",
            f"UPDATE sub_agent_events SET sequence = 2 WHERE child_id = '{CHILD}' AND sequence = 3",
            f"UPDATE sub_agent_events SET sequence = 3 WHERE child_id = '{CHILD}' AND sequence = 99",
        ),
        {"events_reordered"},
        f"event 2 (agent.subagent_attempt) of child {CHILD} is the one that was written as event 3",
    ),
    "tail cut off": (
        sql(f"DELETE FROM {EVENTS} AND sequence > 3"),
        {"tail_cut"},
        f"the tail of child {CHILD} was cut off after event 3",
    ),
    "closing event removed": (
        sql(f"DELETE FROM {EVENTS} AND sequence = 6"),
        {"tail_cut"},
        f"the tail of child {CHILD} was cut off after event 5",
    ),
    "child removed": (
        sql(f"DELETE FROM {EVENTS}", f"DELETE FROM sub_agents WHERE child_id = '{CHILD}'"),
        {"child_removed"},
        f"child {CHILD} was removed: it is number 3",
    ),
    "child removed with its link of the running root": (
        sql(
            f"DELETE FROM {EVENTS}",
            f"DELETE FROM sub_agents WHERE child_id = '{CHILD}'",
            f"DELETE FROM closed_children WHERE child_id = '{CHILD}'",
        ),
        {"child_removed", "root_missing"},
        f"names child {CHILD}, which is not there",
    ),
    "contract changed": (
        sql(f"UPDATE sub_agents SET context_json = '{{}}' WHERE child_id = '{CHILD}'"),
        {"row_altered"},
        f"the row of child {CHILD}, contract included",
    ),
    "link of the running root changed": (
        sql(f"UPDATE closed_children SET last_link = '{'a' * 64}' WHERE child_id = '{CHILD}'"),
        {"root_altered", "child_rewritten"},
        "number 3 of the running root of instance first was altered",
    ),
    "link of the running root removed": (
        sql(f"DELETE FROM closed_children WHERE child_id = '{CHILD}'"),
        {"root_missing", "child_not_in_root"},
        "number 3 of the running root of instance first missing",
    ),
    "running root cut": (
        sql(
            "UPDATE instances SET closed_number = 4, closed_root = (SELECT root FROM closed_children WHERE number = 4)",
            "DELETE FROM closed_children WHERE number > 4",
        ),
        {"root_cut", "child_not_in_root"},
        "it ends at 4, a checkpoint has 6",
    ),
    "state of the running root set back": (
        sql("UPDATE instances SET closed_root = 'b'"),
        {"root_altered"},
        "number 6 of the running root of instance first is not the root",
    ),
    "checkpoint line changed": (
        lambda folder: change_lines(folder, b'"number":4', b'"number":3'),
        {"checkpoint_altered"},
        "line 2 of the checkpoints was altered",
    ),
    "checkpoint line removed": (_line_removed, {"checkpoint_missing"}, "lines 2 to 2 of the checkpoints were removed"),
    "checkpoint signed with another key": (
        _signed_anew,
        {"checkpoint_other_key"},
        "line 4 of the checkpoints is signed",
    ),
    "marker forged": (_forged_marker, {"marker_forged"}, "up to number 6 was forged or altered"),
}


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_files_is_named(folder: Path, name: str) -> None:
    """Exit code 1, findings of these kinds and no others, and a sentence that says which row."""
    tamper, kinds, text = ATTACKS[name]
    tamper(folder)

    code, found = findings(folder)

    assert code == 1
    assert {one["kind"] for one in found} == kinds
    assert any(text in one["text"] for one in found), found


def test_findings_are_one_line_each(folder: Path) -> None:
    """As text: the kind, the sentence, and at the end how many."""
    attack(folder, f"UPDATE sub_agent_events SET actor = 'x' WHERE child_id = '{CHILD}' AND sequence = 1")
    code, out, _ = run(*over(folder))
    first, last = out.splitlines()
    assert code == 1
    assert first.startswith(f"event_altered: event 1 (agent.subagent_created) of child {CHILD} was altered")
    assert last.startswith("1 findings: 6 children")


@requirement("SX-38")
def test_a_log_verifies_while_it_is_written_and_as_a_backup(folder: Path, tmp_path: Path) -> None:
    """Beside an open record, with turns after the last checkpoint; and a backup in a folder nobody may write to."""
    backup = tmp_path / "backup"
    backup.mkdir()

    async def beside() -> tuple[int, str, str]:
        async with written(folder, [4, 5], "second") as record:
            await record.back_up(backup / RECORD)
            return await asyncio.to_thread(run, *over(folder))

    code, out, _ = asyncio.run(beside())
    assert (code, out.split(":")[0], "10 children" in out, "5 checkpoints" in out) == (0, "whole", True, True)

    for name in (LINES, PUBLIC):
        shutil.copy(folder / name, backup / name)
    before = sorted(path.name for path in backup.iterdir())
    backup.chmod(0o500)
    try:
        code, out, _ = run(*over(backup))
    finally:
        backup.chmod(0o700)
    assert (code, out.split(":")[0], sorted(path.name for path in backup.iterdir())) == (0, "whole", before)


@requirement("SX-38")
def test_a_log_verifies_after_retention(folder: Path) -> None:
    """The first two turns are more than 90 days old; what is left verifies, and so does what comes after it."""
    assert asyncio.run(shorten(folder, 90 + 25 / 86_400)) == 4
    asyncio.run(write(folder, [4], "second"))
    code, out, _ = run(*over(folder))
    assert (code, out.split(",")[0]) == (0, "whole: 4 children with 24 events in 2 turns")
    assert out.endswith("5 checkpoints, 1 retention markers\n")


def test_what_it_could_not_know_is_a_note(folder: Path) -> None:
    """Without checkpoints; the exit code is that of what could be known."""
    code, out, _ = run("--sqlite", str(folder / RECORD))
    assert code == 0
    assert out.startswith("note: no checkpoints were given: ")


def test_without_checkpoints_a_root_that_ends_too_early_shows_against_where_it_stands(folder: Path) -> None:
    """The last link is gone, and the row of the instance still says six."""
    attack(folder, "DELETE FROM closed_children WHERE number = 6")
    code, out, _ = run("--sqlite", str(folder / RECORD))
    assert (code, out.splitlines()[0]) == (
        1,
        "root_cut: the end of the running root of instance first was cut off: it ends at 5, and stands at 6",
    )


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


@pytest.mark.system
@requirement("SX-38")
async def test_a_record_in_postgresql_verifies_and_is_read_only(postgres_dsn: str, tmp_path: Path) -> None:
    """Whole; then one event is altered behind the triggers' back; nobody is put on record by looking."""
    record = await open_postgres_record(postgres_dsn, InstanceId("first"))
    place = CheckpointFile(tmp_path / LINES, read_or_make_signer(tmp_path / KEY), lambda *_: None)
    await record.commit(a_whole_turn("turn-2", ("shop", "rewards")))
    await place.append([checkpoint_of(state, BEGIN) for state in await record.closed_states()])
    await record.close()
    (tmp_path / "dsn").touch(0o600)
    (tmp_path / "dsn").write_text(postgres_dsn)
    arguments = ["--postgresql-dsn-file", str(tmp_path / "dsn"), *over(tmp_path)[2:]]

    code, out, err = await asyncio.to_thread(run, *arguments)
    assert (code, out.split(" with")[0], err) == (0, "whole: 2 children", "")

    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("alter table sub_agent_events disable trigger all")
    await connection.execute("update sub_agent_events set actor = 'x' where sequence = 2 and child_id = $1", CHILD)
    assert await connection.fetchval("select count(*) from instances") == 1
    await connection.close()

    code, out, _ = await asyncio.to_thread(run, *arguments)
    assert (code, out.split(":")[0]) == (1, "event_altered")
