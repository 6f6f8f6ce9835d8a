"""What may be set about the record's retention and checkpoints."""

from pathlib import Path

import pytest

from sidecar.composition.record.checkpoints import checkpoint_files, retention_rules
from sidecar.settings import SettingsProblem, read_settings
from tests.support.requirement import requirement

NEEDED = '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'


def settings_file(folder: Path, text: str) -> Path:
    """Return a settings file with `text` after what every file needs."""
    file = folder / "sidecar.toml"
    file.write_text(NEEDED + text)
    return file


@requirement("SX-38")
@pytest.mark.parametrize("days", [89, 0, -1])
def test_less_than_90_days_are_refused(tmp_path: Path, days: int) -> None:
    """At the start, with the name of the setting and the reason."""
    with pytest.raises(SettingsProblem, match=r"record\.retention\.audit_days: .*must be at least 90"):
        read_settings(settings_file(tmp_path, f"[record.retention]\naudit_days = {days}\n"), {})


def test_90_days_are_enough(tmp_path: Path) -> None:
    """And become the rules; frames have their own."""
    said = read_settings(settings_file(tmp_path, "[record.retention]\naudit_days = 90\nframes_days = 3\n"), {}).record
    rules = retention_rules(said.retention)
    assert (rules.audit.days, rules.frames.days) == (90, 3)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (
            '[record.sqlite]\npath = "/data/r.db"\n',
            ("/data/checkpoints/checkpoints.jsonl", "/data/checkpoints/checkpoint.key"),
        ),
        (
            '[record.checkpoints]\nfile = "/far/away.jsonl"\nkey_file = "/keys/k"\n',
            ("/far/away.jsonl", "/keys/k"),
        ),
        (
            '[record]\ndatabase = "postgresql"\n[record.postgresql]\ndsn_file = "/x"\n',
            ("/var/lib/sidecar/checkpoints/checkpoints.jsonl", "/var/lib/sidecar/checkpoints/checkpoint.key"),
        ),
    ],
)
def test_the_second_place_has_a_default(tmp_path: Path, text: str, where: tuple[str, str]) -> None:
    """Beside the record's file, or where the sidecar's data are; each half can be set."""
    said = read_settings(settings_file(tmp_path, text), {}).record
    assert tuple(map(str, checkpoint_files(said))) == where
