"""`sidecar migrate` and `sidecar backup`, as programs, on real files."""

import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.adapters.record_sqlite import SqliteJournal
from sidecar.core.identifiers import InstanceId, TurnId
from tests.adapters.records.bench import OpenedRecord
from tests.support.record_builders import a_whole_turn

pytestmark = pytest.mark.system

TURN = TurnId("turn-1")


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
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_steps_are_shown_before_they_are_applied(settings: Path, tmp_path: Path) -> None:
    """The preview makes no file; then they are applied, once."""
    code, said = sidecar("migrate", "--preview", "--config", settings)
    assert (code, said) == (0, "pending: 0001_journal\npending: 0002_rollouts\n")
    assert not (tmp_path / "r").exists()
    assert sidecar("migrate", "--config", settings) == (0, "applied: 0001_journal\napplied: 0002_rollouts\n")
    assert sidecar("migrate", "--config", settings) == (0, "the record's schema is current\n")


async def test_a_record_that_is_open_is_copied_and_not_migrated(settings: Path, tmp_path: Path) -> None:
    """As if a sidecar served: the copy is whole, and a second instance goes on with it; nothing is ever replaced."""
    journal = await SqliteJournal.open(tmp_path / "r" / "record.sqlite", InstanceId("one"), lambda doing, error: None)
    record = OpenedRecord(journal)
    await record.append(a_whole_turn())
    kept = await record.turn(TURN)

    code, said = sidecar("migrate", "--config", settings)
    assert code == 78
    assert "is open in another process" in said
    copy = tmp_path / "copy.sqlite"
    assert sidecar("backup", copy, "--config", settings) == (0, f"copied the record to {copy}\n")
    code, said = sidecar("backup", copy, "--config", settings)
    assert (code, said) == (78, f"record.sqlite: {copy} exists already: choose another name for the backup\n")
    await record.append(a_whole_turn("turn-2"))
    await journal.close()

    again = await SqliteJournal.open(copy, InstanceId("one"), lambda doing, error: None)
    restored = OpenedRecord(again)
    assert await restored.turn(TURN) == kept
    assert await restored.turn(TurnId("turn-2")) is None
    await again.close()


def test_there_is_nothing_to_copy_of_a_record_in_memory(settings: Path, tmp_path: Path) -> None:
    """It says so."""
    settings.write_text(settings.read_text() + '[record]\ndatabase = "memory"\n')
    code, said = sidecar("backup", tmp_path / "copy", "--config", settings)
    assert (code, said) == (78, "record.database is memory: there is nothing to keep\n")
