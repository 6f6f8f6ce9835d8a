"""`sidecar init`, and what its README has a newcomer type, typed: from nothing to the first dispatch."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from sidecar.cli.init.repository import write_repository
from tests.support.sidecar_process import ROOT
from tests.support.typed_commands import free_port, typed_in

pytestmark = pytest.mark.system

PAGE: Final = ROOT / "docs" / "first-sub-agent.md"
CONSOLE: Final = re.compile(r"^ *```console\n(.*?)```", re.DOTALL | re.MULTILINE)
PORT: Final = "8480"
"""Of the data service, as written; another process may have it here."""
INSTALLING: Final = "pip install -r requirements.txt"
HEALTH: Final = "sidecar health --config sidecar.toml"
ASKING: Final = 'python ask.py "Is there a trip to Lisbon?"'
ASKING_WEATHER: Final = 'python ask.py --sub-agent city-weather "Will it rain?"'
STOPPING: Final = "kill $(jobs -p)"
SECONDS: Final = 240.0
UNTIL: Final = """
until sidecar health --config sidecar.toml >health 2>&1; do kill -0 $!; done
until [ -S .run/travel.sock ]; do kill -0 $!; done
cat health
echo '=== python ask.py, too early'
python ask.py && exit 1
"""

UNTIL_AGAIN: Final = """
until [ -S .run/city-weather.sock ] && [ "$(grep -c 'the sidecar answers' .run/dev.log)" -ge 2 ]; do
    kill -0 $!
    sidecar health --config sidecar.toml >health 2>&1 || true
done
python -m pytest -q
python ask.py --sub-agent city-weather && exit 1
"""
"""`sidecar dev` starts the sidecar again; until then the one before would answer."""


@pytest.fixture
def repository() -> Iterator[Path]:
    """What `sidecar init travel` writes, in a folder whose name is short enough for sockets."""
    with TemporaryDirectory(prefix="init-") as folder:
        command = [sys.executable, "-m", "sidecar", "init", "travel", "--dir", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        assert [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")] == [
            f"cd {folder}/travel",
            INSTALLING,
            "sidecar validate config --strict",
        ]
        yield Path(folder) / "travel"


def commands_of(page: str) -> Sequence[str]:
    """Return the commands of all console blocks, without what they print."""
    lines = (line.strip() for block in CONSOLE.findall(page) for line in block.splitlines())
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def listening_elsewhere(repository: Path) -> None:
    """Give the data service a port that is free here."""
    port = free_port()
    for file in (repository / "data_service.py", repository / "config" / "agent_config.yaml"):
        text = file.read_text("utf-8")
        assert text.count(PORT) == 1
        file.write_text(text.replace(PORT, port), "utf-8")


@pytest.mark.seconds(240)
def test_the_written_readme_leads_to_a_dispatch(repository: Path) -> None:
    """Every command but the installation is typed as it is written; before its ramp no user is offered a sub-agent."""
    listening_elsewhere(repository)
    script = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -e\n"
    commands = commands_of((repository / "README.md").read_text("utf-8"))
    assert {INSTALLING, HEALTH, ASKING, STOPPING} <= set(commands)
    waits = iter((UNTIL, UNTIL_AGAIN))
    for command in commands:
        if command != INSTALLING:
            script += f"echo '=== {command}'\n" + (next(waits) if command == HEALTH else f"{command}\n")
    code, out = typed_in(repository, f"{script}wait", SECONDS)
    said = {each.partition("\n")[0]: each.partition("\n")[2] for each in out.split("=== ")[1:]}

    assert code == 0, out + (repository / ".run" / "dev.log").read_text()
    assert "valid: 2 agents" in said["sidecar validate config --strict"]
    assert "ready (200)" in out
    assert "ask_travel is not offered to user-1" in said["python ask.py, too early"]
    assert "done: promoted" in said['sidecar subagent promote travel --reason "routing measured"']
    assert "done: live 99 %" in said['sidecar subagent ramp travel 99 --reason "first users" --wait']
    assert "ask_city-weather is not offered to user-1" in said[HEALTH]
    assert said[ASKING_WEATHER] == "ask_city-weather: succeeded\ncity-weather was asked: Will it rain?\n"
    assert said[ASKING] == "ask_travel: succeeded\nI found: Weekend in Lisbon for 18,000 points.\n"


def test_the_page_has_the_commands_of_the_written_readme(repository: Path) -> None:
    """The tutorial begins with the command that writes the README, and says no other steps."""
    written = commands_of((repository / "README.md").read_text("utf-8"))

    assert commands_of(PAGE.read_text("utf-8")) == ["sidecar init travel", "cd travel", *written]


def test_the_check_of_each_change_passes_in_what_was_written(tmp_path: Path) -> None:
    """The commands of the written CI file, for a name with a hyphen."""
    repository = write_repository("city-trips", tmp_path)
    workflow = (repository / ".github" / "workflows" / "check.yml").read_text("utf-8")
    checks = [line for line in re.findall(r"- run: (.*)", workflow) if "pip install" not in line]
    assert checks == ["sidecar validate config --strict", "python -m pytest"]
    (refs,) = re.findall(r"^        run: (sidecar validate-refs .*)", workflow, re.MULTILINE)
    git = "git -c user.name=me -c user.email=me@example"
    checks += ["git init -q", "git add -A", f"{git} commit -qm base", f"BASE=HEAD && {refs}"]

    code, out = typed_in(repository, "set -e\n" + "\n".join(checks), SECONDS)

    assert (code, "5 passed" in out) == (0, True), out
