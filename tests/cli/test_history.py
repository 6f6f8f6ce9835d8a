"""`sidecar history`: a legacy export is read into the conversations of a deployment, and one is written out."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from sidecar.cli.record.history_commands import add_history_commands
from sidecar.composition.plugins.conversations import conversations_of
from sidecar.settings import Settings, read_settings
from tests.support.requirement import requirement
from tests.support.sidecar_process import settings_file

MARKED = 'Here. <component type="offer">{"id": "o-1"}</component>'


def legacy(turn_id: str, role: str, text: str, **fields: Any) -> str:
    """Return one line."""
    given = {"turn_id": turn_id, "episode_id": "e-1", "principal": "user-1", "at": "2025-05-01T10:00:00Z"}
    return json.dumps({**given, "role": role, "text_content": text, **fields})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with settings and an export."""
    settings_file(
        tmp_path,
        f'[memories.store]\nplugin = "store"\npath = "{tmp_path}/conversations.sqlite"\n'
        '[policy.default]\nmemory = "store"\n',
    )
    lines = [
        legacy("t-1", "user", "What is new?"),
        legacy("t-1", "assistant", MARKED, intent_labels=["shopping"]),
        legacy("t-2", "assistant", "Sunny.", intent_labels=["weather"]),
        legacy("t-3", "assistant", 'And <component type="offer">{broken</component>', sub_agent_id="shop"),
    ]
    (tmp_path / "export.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def history(folder: Path, *arguments: str) -> Result:
    """Run a command below `history`."""
    app = typer.Typer()
    app.callback()(lambda: None)

    def settings_of(file: Path | None) -> Settings:
        return read_settings(file, {})

    add_history_commands(app, settings_of, conversations_of)
    return CliRunner().invoke(app, ["history", *arguments, "--config", str(folder / "sidecar.toml")])


@requirement("PC1-D-30", "PC1-D-50")
def test_an_export_is_read_once_and_what_is_uncertain_is_told(folder: Path) -> None:
    """First only looked at, then read, then read again: the same findings, and the second time nothing to keep."""
    arguments = ("backfill", str(folder / "export.jsonl"), "--label", "shopping=shop", "--json")
    dry, first, again = (history(folder, *arguments, *more) for more in (["--dry-run"], [], []))

    reports = [json.loads(each.stdout) for each in (dry, first, again)]
    assert [(each["turns"], each["already"], each["tagged"], each["components"]) for each in reports] == [
        (3, 0, 2, 1),
        (3, 0, 2, 1),
        (0, 3, 0, 0),
    ]
    assert reports[0]["troubles"] == reports[1]["troubles"] == {"marker_damaged": 1, "unknown_label": 1}
    assert [(each["line"], each["offset"]) for each in reports[1]["findings"]] == [(3, None), (4, 4)]
    assert [each.exit_code for each in (dry, first, again)] == [1, 1, 0]


def test_a_conversation_is_written_out_with_every_layer(folder: Path) -> None:
    """Narration without markers, the component in its tool message; of an unknown one nothing, and exit code 1."""
    history(folder, "backfill", str(folder / "export.jsonl"), "--label", "shopping=shop")

    written = history(folder, "export", "e-1", "--principal", "user-1")
    turns = [json.loads(line)["turn"] for line in written.stdout.splitlines()]
    assert [turn["narration"] for turn in turns] == ["Here.", "Sunny.", "And"]
    assert [(each["sub_agent_id"], each["component_data_json"]) for each in turns[0]["tool_messages"]] == [
        ("shop", '{"id": "o-1"}')
    ]
    assert (written.exit_code, history(folder, "export", "e-1", "--principal", "user-2").exit_code) == (0, 1)


def test_the_report_for_people_ends_with_the_counts(folder: Path) -> None:
    """Findings first, each with its place."""
    said = history(folder, "backfill", str(folder / "export.jsonl"), "--dry-run").stdout.splitlines()

    assert said[0] == "line 2 (turn t-1): unknown_label: shopping"
    assert "4 lines: 3 turns would be stored (1 with a sub-agent, 1 components), 0 existed already, 0 omitted" in said


def test_a_memory_that_forgets_is_not_filled(folder: Path) -> None:
    """And a label that maps to nothing is refused before anything is opened."""
    settings_file(folder, '[policy.default]\nmemory = "in_process"\n')
    forgets = history(folder, "backfill", str(folder / "export.jsonl"))
    wrong = history(folder, "backfill", str(folder / "export.jsonl"), "--label", "shopping")

    assert (forgets.exit_code, wrong.exit_code) == (78, 78)
    assert "`in_process` forgets" in forgets.stderr
    assert "LABEL=SLOT" in wrong.stderr
