"""What `docs/subagent-cli.md` has a newcomer type, typed: a sub-agent goes from nothing to a ramp, and is killed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place
from tests.support.typed_commands import free_port, typed_in

pytestmark = pytest.mark.system

DOCUMENTED = re.compile(r"## From nothing to a ramp\n.*?```console\n(.*?)```", re.DOTALL)
PORT = "8490"
"""Of the gate service, as documented; somebody else may have it here."""
SECONDS = 300.0
SERVING = "sidecar serve --config sidecar.toml &"
TO_ITS_END = """
trap 'kill $(jobs -p); wait' EXIT
set -e
"""
UNTIL_IT_SERVES = """
until sidecar health --config sidecar.toml >/dev/null 2>&1; do kill -0 $!; done
until python -c 'import socket; socket.create_connection(("127.0.0.1", PORT))' 2>/dev/null; do kill -0 %1; done
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with the examples in it, as the root of the repository has them."""
    with place() as path:
        (path / "config" / "agent_config.yaml").unlink()  # the commands copy the definitions themselves
        (path / "config").rename(path / "not-used")
        (path / "examples").symlink_to(ROOT / "examples")
        (path / ".demo-venv" / "bin").mkdir(parents=True)  # the environment of the tests is in its place
        (path / ".demo-venv" / "bin" / "activate").touch()
        yield path


def typed(folder: Path) -> dict[str, str]:
    """Type all commands in one shell; return what each `sidecar subagent` printed, by its verb and first words."""
    found = DOCUMENTED.search((ROOT / "docs" / "subagent-cli.md").read_text(encoding="utf-8"))
    assert found is not None
    commands = [line.removeprefix("$ ") for line in found[1].splitlines()]
    assert commands.count(SERVING) == 1
    port, script = free_port(), TO_ITS_END
    for command in commands:
        said = re.match(r"sidecar subagent (.*?)( --|$)", command)
        script += f"echo '=== {said[1]}'\n" if said else ""
        script += (
            command.replace(PORT, port).replace("> sidecar.toml", f"| sed 's/{PORT}/{port}/' > sidecar.toml") + "\n"
        )
        script += UNTIL_IT_SERVES.replace("PORT", port) if command == SERVING else ""
    code, out = typed_in(folder, script, SECONDS)
    assert code == 0, out
    parts = (part.partition("\n") for part in out.split("=== ")[1:])
    return {verb: text for verb, _, text in parts}


@requirement("PF1-D-21")
def test_a_sub_agent_goes_from_nothing_to_a_ramp_as_documented(folder: Path) -> None:
    """One process all the time: what is on record decides who has it, and nothing is deployed in between."""
    said = typed(folder)

    assert re.search(r"rewards +rewards +in development", said["list"])
    assert re.search(r"shop +shop +live 100 %", said["list"]), "the example's settings serve it from the start"
    assert "done: promoted (" in said["promote rewards"]
    assert "done: live 25 %" in said["ramp rewards 25"]
    assert re.search(r"the user is served by (nobody|rewards)", said["explain rewards"])
    assert "in effect: every living replica (1)" in said["ramp rewards 100"]
    assert "reached: replica, flag, record" in said["kill rewards"]
    for happened in ("definition_seen", "in test -> promoted", "flags_on", "killed"):
        assert happened in said["history rewards"]
