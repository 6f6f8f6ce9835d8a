"""Mistakes of a first day: what `sidecar serve` says about each, with the place and what to do. Real processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from sidecar.cli.init.repository import write_repository
from tests.support.typed_commands import free_port

pytestmark = [pytest.mark.system, pytest.mark.seconds(60)]

AGENTS: Final = "config/agent_config.yaml"
SECOND_TOOL: Final = "\n  - {id: find_trips, description: d}\n\nagents:"


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Return what replaces a text that a file has once."""

    def edited(folder: Path) -> None:
        path = folder / file
        text = path.read_text("utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), "utf-8")

    return edited


def emptied(folder: Path) -> None:
    """Leave the folder of the definitions empty."""
    shutil.rmtree(folder / "config")
    (folder / "config").mkdir()


def without_prompt(folder: Path) -> None:
    """Remove a prompt block."""
    (folder / "config/prompts/components/travel/persona-travel.yaml").unlink()


def without_key(_folder: Path) -> None:
    """Leave out `sidecar token key`: nothing else makes a key."""


def with_another_record(folder: Path) -> None:
    """Put something else where the record is."""
    (folder / ".run" / "operator.pub").write_text("")
    (folder / ".run" / "record").mkdir()
    (folder / ".run" / "record" / "record.sqlite").write_text("no database " * 1000)


MISTAKES: Final[dict[str, tuple[Callable[[Path], None], tuple[str, ...]]]] = {
    "bad YAML": (edit(AGENTS, "models:\n", "models: [\n"), ("agent_config.yaml:5: is not YAML: ",)),
    "empty folder": (emptied, ("agent_config.yaml: is missing in config; it holds `agents`, `models` and `tools`",)),
    "wrong folder": (
        edit("sidecar.toml", 'path = "config"', 'path = "confg"'),
        ("agent_config.yaml: cannot be read: the configuration root confg does not exist",),
    ),
    "missing prompt": (without_prompt, ("travel.prompt_blocks[0]: unknown prompt block", "persona-travel")),
    "duplicate tool": (
        edit(AGENTS, "\nagents:", SECOND_TOOL),
        ("tools.find_trips.id: ", "is taken: the tools have it already at agent_config.yaml:14"),
    ),
    "unknown key": (
        edit("sidecar.toml", "lame_duck", "lame_dck"),
        ("sidecar.toml: server.lame_dck: no such setting; did you mean `lame_duck`?",),
    ),
    "missing key file": (
        without_key,
        ("operators.key.me: .run/operator.pub cannot be read: ", "create a key with `sidecar token key --key FILE`"),
    ),
    "unreadable record": (
        with_another_record,
        ("record.sqlite: .run/record/record.sqlite is damaged, or not a SQLite database: restore a backup",),
    ),
}
"""By mistake: what makes it, and what one line has to contain."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_what_is_wrong_and_where(mistake: str) -> None:
    """One line of the log or of the refusal has all of it, and no traceback is shown."""
    make, said = MISTAKES[mistake]
    environment = {**os.environ, "SIDECAR__SERVER__OPS_ADDRESS": f"127.0.0.1:{free_port()}"}
    with TemporaryDirectory(prefix="m-") as parent:
        folder = write_repository("travel", Path(parent))
        make(folder)
        command = [sys.executable, "-m", "sidecar", "serve", "--config", "sidecar.toml"]
        with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                seen = []
                for line in process.stderr:
                    seen.append(line)
                    if all(text in line for text in said):
                        break
                else:
                    pytest.fail(f"{said} did not come:\n{''.join(seen)}")
            finally:
                process.kill()
    assert not any("Traceback" in line for line in seen)
