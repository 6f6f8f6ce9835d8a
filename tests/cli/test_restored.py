"""`sidecar restored`: an older backup takes the place of a record, and the log says what is lost and goes on."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.record.restored_command import LossDeclaration, add_restored
from sidecar.composition.record.restoration import declare_loss
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.audit_chain import AuditHead
from sidecar.core.verifying.checkpoint_lines import (
    NO_LINE,
    CheckpointClaims,
    CheckpointLine,
    Statement,
    audit_statement,
    furthest_audit,
    restored_audit_statement,
    signed_line,
)
from sidecar.core.verifying.restored_backups import restored_notices
from sidecar.settings import read_settings
from sidecar.settings.settings import Settings
from tests.architecture.reading import REPOSITORY
from tests.support.record_builders import BEGIN
from tests.support.requirement import requirement
from tests.support.second_place import a_signer
from tests.support.signed_files import KEY, LINES, RECORD, erase, signing, write, written
from tests.support.tampering import SqliteTampering
from tests.support.verified_records import findings, over, run

ONE, TWO = InstanceId("one"), InstanceId("two")
BACKUP = "backup.db"
SETTINGS = """
[definitions]
path = "{definitions}"
[dispatch]
fan_out_cap = 3
[record.sqlite]
path = "{folder}/{record}"
[record.checkpoints]
file = "{folder}/{lines}"
key_file = "{folder}/{key}"
"""


def settings_of(folder: Path) -> Settings:
    """Return settings with the record of a folder."""
    file = folder / "sidecar.toml"
    definitions = REPOSITORY / "examples" / "config"
    file.write_text(SETTINGS.format(definitions=definitions, folder=folder, record=RECORD, lines=LINES, key=KEY))
    return read_settings(file, {})


def restored(folder: Path, *typed: str, answer: str = "") -> tuple[int, str]:
    """Run the command as an operator would; return exit code and output."""
    app = typer.Typer()
    app.callback()(lambda: None)

    def state(settings: Settings, reason: str, confirmed: Callable[[Sequence[str]], bool]) -> LossDeclaration:
        return asyncio.run(declare_loss(settings, reason, confirmed))

    add_restored(app, lambda _: settings_of(folder), state)
    command = ["restored", "--reason", "backup of Monday", *typed]
    done = CliRunner().invoke(app, command, input=answer, catch_exceptions=False)
    return done.exit_code, done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose record was replaced by a backup: three turns were signed, one is left."""
    asyncio.run(write(tmp_path, [1]))
    shutil.copy(tmp_path / RECORD, tmp_path / BACKUP)
    asyncio.run(write(tmp_path, [2, 3]))
    asyncio.run(write(tmp_path, [4], "second"))
    restore(tmp_path)
    return tmp_path


def restore(folder: Path) -> None:
    """Put the backup in the place of the record."""
    for old in folder.glob(f"{RECORD}-*"):
        old.unlink()
    shutil.copy(folder / BACKUP, folder / RECORD)


@requirement("SX-38", "SX-39")
def test_what_a_backup_lacks_is_a_note_once_an_operator_has_stated_it(folder: Path) -> None:
    """Before, it looks cut; afterwards the log is whole, names the gap with who and why, and new turns count."""
    before, found = findings(folder)
    code, said = restored(folder, "--yes")
    asyncio.run(write(folder, [5], "third"))
    after, out, _ = run(*over(folder))

    assert (before, {each["kind"] for each in found}) == (1, {"root_cut"})
    assert (code, said.count("lost: ")) == (0, 2)
    assert after == 0, out
    assert "facts 4 to 9 of instance first" in out
    assert "facts 1 to 3 of instance second" in out
    assert "backup of Monday" in out
    assert "uid " in out
    assert "whole: 6 facts in 2 turns" in out


@requirement("SX-38")
def test_what_is_cut_after_the_statement_is_a_finding_again(folder: Path) -> None:
    """The statement is itself a checkpoint of what was left."""
    restored(folder, "--yes")
    record = SqliteTampering(folder / RECORD)
    asyncio.run(record.remove_turn("turn-1"))
    record.close()
    code, found = findings(folder)
    assert code == 1
    assert "root_cut" in {each["kind"] for each in found}


@requirement("SX-38")
def test_damage_that_a_backup_does_not_explain_is_not_stated_away(folder: Path) -> None:
    """The finding is shown, and the file of checkpoints stays as it is."""
    record = SqliteTampering(folder / RECORD)
    asyncio.run(record.remove_root("first"))
    record.close()
    lines = (folder / LINES).read_bytes()
    code, said = restored(folder, "--yes")
    assert (code, "an older backup does not explain this" in said) == (1, True)
    assert (folder / LINES).read_bytes() == lines


def test_it_asks_first_and_states_nothing_twice(folder: Path) -> None:
    """Not confirmed: nothing is written. Stated already, or a whole record: there is nothing to state."""
    refused, _ = restored(folder, answer="n\n")
    still, _ = findings(folder)
    restored(folder, answer="y\n")
    again, said = restored(folder, "--yes")
    assert (refused, still, again) == (1, 1, 0)
    assert "nothing that was signed is missing" in said


def test_an_erasure_that_the_backup_undid_is_named(tmp_path: Path) -> None:
    """The texts are back, so the user has to be erased again."""
    asyncio.run(write(tmp_path, [1]))
    shutil.copy(tmp_path / RECORD, tmp_path / BACKUP)
    asyncio.run(write(tmp_path, [2]))
    asyncio.run(erase(tmp_path))
    restore(tmp_path)
    restored(tmp_path, "--yes")
    code, out, _ = run(*over(tmp_path))
    assert (code, "1 erasures are not in the restored record" in out) == (0, True)


async def test_a_start_on_a_stated_record_signs_on_without_an_anomaly(folder: Path) -> None:
    """The newest statement is what the roots are compared with."""
    await asyncio.to_thread(restored, folder, "--yes")
    async with written(folder, [], "third") as record:
        looks = signing(record.journal, folder)
        await looks.look()
    assert looks._recorder.kinds == []  # type: ignore[attr-defined]  # the anomalies of `signing`


def test_the_audit_goes_on_from_where_the_backup_ends() -> None:
    """Row 3 was signed and is lost; the new row 3 has another link, and is no contradiction, in whichever file."""
    lost, left, new = AuditHead(3, "aa"), AuditHead(2, "bb"), AuditHead(3, "cc")
    statements = [
        audit_statement(left, ONE, BEGIN),
        audit_statement(lost, ONE, BEGIN + timedelta(seconds=1)),
        restored_audit_statement(left, ONE, "uid 0: disk", BEGIN + timedelta(seconds=2)),
        audit_statement(new, TWO, BEGIN + timedelta(seconds=3)),
    ]
    lines = _signed(statements)
    for order in (lines, [*lines[2:], *lines[:2]]):
        claims = CheckpointClaims()
        assert [claims.add(line) for line in order] == [True] * 4
        assert claims.audit_links == {2: "bb", 3: "cc"}
    assert furthest_audit(lines) == new
    assert furthest_audit(lines[:3]) == left
    claims = CheckpointClaims()
    for line in lines:
        claims.add(line)
    (notice,) = restored_notices(claims, ())
    assert "rows 3 to 3 of the audit of rollouts are lost: a backup was restored, as uid 0: disk stated" in notice


def _signed(statements: Sequence[Statement]) -> list[CheckpointLine]:
    signer = a_signer()
    return [signed_line(each, number, NO_LINE, signer) for number, each in enumerate(statements, 1)]
