"""`sidecar subagent new`: what it refuses, and that a refusal changes nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.cli.init.repository import write_repository

pytestmark = pytest.mark.system


def new(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run `sidecar subagent new` for a folder; return exit code, output and errors."""
    command = [sys.executable, "-m", "sidecar", "subagent", "new", *arguments, "--dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file and folder below `folder`."""
    return {str(each.relative_to(folder)): each.read_bytes() if each.is_file() else b"" for each in folder.rglob("*")}


def edited(folder: Path, file: str, old: str, new_text: str) -> None:
    """Replace a text that a file has once."""
    path = folder / file
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new_text), "utf-8")


@pytest.mark.parametrize(
    ("name", "file", "old", "put", "said"),
    [
        ("City", "", "", "", "'City' cannot be a sub-agent's name; take at most 40 lower-case letters"),
        ("platform", "", "", "", "'platform' is a name that the written configuration uses itself"),
        ("travel", "", "", "", "sidecar.toml has a target for 'travel' already; choose another name, or remove"),
        ("travel", "sidecar.toml", 'travel = "unix:', 'other = "unix:', "has an agent 'travel' already; choose"),
        ("weather", "sidecar.toml", "[targets.slots]", "[targets.slots", "sidecar.toml is not valid TOML: "),
        ("weather", "sidecar.toml", '[targets.slots]\n', "[targets]\nslots.", "has its targets in"),
        ("weather", "config/agent_config.yaml", "agents:\n", "agents: {\n", "agent_config.yaml is not YAML: "),
        ("weather", "config/agent_config.yaml", "agents:\n", "others:\n", "has no list `agents` where one is expected"),
        ("weather", "config/agent_config.yaml", "role: orchestrator", "role: native", "has no orchestrator; name"),
        ("weather", "config/evals/suite.yaml", "sub_agents:", "agents:", "has no mapping `sub_agents` where one is"),
        ("weather", "config/agent_config.yaml", "role: native", "role: nativ", "so nothing was changed: agent_config"),
    ],
)  # fmt: skip
def test_a_refusal_says_why_and_changes_nothing(
    name: str, file: str, old: str, put: str, said: str, tmp_path: Path
) -> None:
    """Exit code 64; each message names the place and what to do."""
    folder = write_repository("travel", tmp_path)
    if file:
        edited(folder, file, old, put)
    before = contents(folder)

    code, out, errors = new(folder, name)

    assert (code, out, errors.count("\n")) == (64, "", 1), errors
    assert said in errors
    assert contents(folder) == before


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """Also if it is the last one."""
    folder = write_repository("travel", tmp_path)
    (folder / "weather_agent.py").write_text("mine")
    before = contents(folder)

    code, _, errors = new(folder, "weather")

    assert (code, errors) == (64, f"{folder}/weather_agent.py exists already; choose another name, or move it away\n")
    assert contents(folder) == before


def test_a_disk_that_is_full_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """No file may be longer than 3 KiB, so that `agent_config.yaml` cannot grow; later there is room."""
    folder = write_repository("travel", tmp_path)
    before = contents(folder)
    script = f"ulimit -f 3; exec {sys.executable} -B -m sidecar subagent new weather --dir {folder}"
    full = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300, check=False)

    assert full.returncode == 64
    assert "agent_config.yaml cannot be written: File too large; nothing was changed" in full.stderr
    assert contents(folder) == before
    assert new(folder, "weather")[0] == 0


def test_another_folder_is_named(tmp_path: Path) -> None:
    """With what a folder must be."""
    code, _, errors = new(tmp_path, "weather")

    assert (code, errors) == (
        64,
        f"{tmp_path}/sidecar.toml does not exist; run this in a folder that `sidecar init` wrote, or name it with "
        "--dir\n",
    )


def test_the_orchestrator_is_chosen_where_there_are_several(tmp_path: Path) -> None:
    """Its list may be written over lines, and comments stay."""
    folder = write_repository("travel", tmp_path)
    second = "  - {id: second, description: d, role: orchestrator, model: gpt-5.4-mini-low, vertical: platform,\n"
    second += "     prompt_blocks: [persona-concierge, instructions-routing], sub_agents: [travel]}\n\n"
    edited(folder, "config/agent_config.yaml", "  - id: travel\n", f"{second}  - id: travel\n")
    edited(
        folder,
        "config/agent_config.yaml",
        "    sub_agents: [travel]\n",
        "    sub_agents:\n      - travel # the first\n",
    )

    refused = new(folder, "weather")
    unknown = new(folder, "weather", "--orchestrator", "third")
    code, _, _ = new(folder, "weather", "--orchestrator", "concierge")

    assert refused[0] == unknown[0] == 64
    assert "has several orchestrators (concierge, second); name the one" in refused[2]
    assert "has no orchestrator 'third'; it has: concierge, second" in unknown[2]
    assert code == 0
    text = (folder / "config" / "agent_config.yaml").read_text("utf-8")
    assert (
        "      - travel # the first\n      - weather\n" in text
        or "      - travel\n      - weather # the first\n" in text
    )
