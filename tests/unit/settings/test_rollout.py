"""The switch that rollouts once had: gone, and nobody is surprised by it."""

from pathlib import Path

import pytest

from sidecar.composition.rollout.open_rollout import tombstone_file
from sidecar.settings import SettingsProblem, read_settings

LEAST = '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'


def said(folder: Path, more: str) -> Path:
    """Return a settings file."""
    file = folder / "sidecar.toml"
    file.write_text(LEAST + more)
    return file


@pytest.mark.parametrize("value", ["false", '"yes"', "0"])
def test_switching_rollouts_off_refuses_the_start_and_says_what_to_do(tmp_path: Path, value: str) -> None:
    """A sidecar that ignored it would take flagged sub-agents off the surface without a word."""
    with pytest.raises(SettingsProblem, match=r"sidecar\.toml: rollout: .*can no longer be off.*docs/lifecycle\.md"):
        read_settings(said(tmp_path, f"[rollout]\nenabled = {value}\n"), {})


def test_a_file_that_replicas_of_two_releases_share_may_still_say_on(tmp_path: Path) -> None:
    """It says what is so anyway, and an older replica needs it until it is updated."""
    settings = read_settings(said(tmp_path, '[rollout]\nenabled = true\ntombstone_file = "/k"\n'), {})
    assert tombstone_file(settings) == Path("/k")


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ('[record.sqlite]\npath = "/data/r/record.sqlite"\n', "/data/r/kills.jsonl"),
        ('[record]\ndatabase = "postgresql"\n[record.postgresql]\ndsn_file = "/x"\n', "/var/lib/sidecar/kills.jsonl"),
    ],
    ids=["beside the record", "no file to be beside of"],
)
def test_kills_are_kept_beside_the_record_unless_said(tmp_path: Path, more: str, where: str) -> None:
    """So that a record that is moved takes them along."""
    assert tombstone_file(read_settings(said(tmp_path, more), {})) == Path(where)
