"""The TypeScript client is installed from its lock, generated, compiled, and holds a turn with the sidecar."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.fake_runner import answers
from tests.support.harness import SECRET, SidecarForTests, running_sidecar_for_tests
from tests.support.named_skips import needs_tool

PACKAGE: Final = Path(__file__).parents[1]
PROTOS: Final = Path(__file__).parents[3] / "proto"
NODE: Final = 18
MADE: Final = ("node_modules", "dist", "generated", "tests")


async def ran(folder: Path, *command: str) -> str:
    """Run a program that has to succeed and return its standard output."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": tools,
        "npm_config_cache": str(folder / "npm-cache"),
        "npm_config_update_notifier": "false",
    }
    program = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await program.communicate()
    assert program.returncode == 0, f"{' '.join(command)}\n{output.decode()}\n{errors.decode()}"
    return output.decode()


def needs_node() -> None:
    """Skip the test, by name, unless node and npm are there and new enough."""
    node = needs_tool("node", package="nodejs")
    needs_tool("npm")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)\.", version)
    if found is None or int(found[1]) < NODE:
        pytest.skip(f"missing tool: node {NODE} or newer (Debian package nodejs); this one is {version.strip()}")


async def built(folder: Path) -> Path:
    """Copy the package beside a copy of the protos, install, generate and compile it; return its folder."""
    shutil.copytree(PROTOS, folder / "proto", ignore=shutil.ignore_patterns("python"))
    package = folder / "clients" / "typescript"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(*MADE))
    await ran(package, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
    await ran(package, "npm", "run", "--silent", "generate")
    await ran(package, "npm", "run", "--silent", "build")
    return package


async def told_by(package: Path, sidecar: SidecarForTests, *tools: str) -> list[dict[str, Any]]:
    """Run the example against a sidecar and return what it shows."""
    secret = sidecar.folder / "secret"
    secret.write_text(SECRET)
    socket = sidecar.dispatch_target.removeprefix("unix:")
    output = await ran(package, "node", "dist/example.js", socket, str(secret), *tools)
    return [json.loads(line) for line in output.splitlines()]


def part(shown: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the lines that have a key."""
    return [line for line in shown if key in line]


@pytest.mark.system
@pytest.mark.seconds(180)
async def test_a_typescript_client_holds_a_whole_turn(tmp_path: Path) -> None:
    """Two answers, an unknown tool, and one over the cap; then a request that is refused, with its reason decoded.

    Over the plain RPCs, then over a session lane, which shows the same.
    """
    needs_node()
    package = await built(tmp_path)
    for way in ([], ["--lane"]):
        await _whole_turn(package, way)


async def _whole_turn(package: Path, way: list[str]) -> None:
    async with running_sidecar_for_tests(cap=2) as sidecar:
        sidecar.runner.use("shop", answers("Schuhe für 5 €", statuses=["searching_offers"]))
        shown = await told_by(package, sidecar, *way, "ask_shop", "ask_weather", "ask_rewards", "ask_support")
        (record,) = sidecar.recorder.of("turn_routed")
    assert sidecar.lane_counts.operations.total() == (3 if way else 0)
    assert shown[0] == {"bound": ["ask_shop", "ask_rewards", "ask_support"], "cap": 2}
    frames = part(shown, "frame")
    assert frames[0]["frame"][0] == "snapshot"
    assert frames[-1]["frame"][-1] == "result"
    assert "status" in [event for frame in frames for event in frame["events"]]
    assert part(shown, "outcome") == [
        {"call": "call-1", "outcome": "SUCCEEDED", "narration": "Schuhe für 5 €"},
        {"call": "call-2", "outcome": "REFUSED", "reason": "UNKNOWN_TOOL", "narration": ""},
        {"call": "call-3", "outcome": "SUCCEEDED", "narration": "hello from rewards"},
        {"call": "call-4", "outcome": "DROPPED", "reason": "OVER_CAP", "narration": ""},
    ]
    (failure,) = part(shown, "failed")
    assert (failure["failed"], failure["reason"]) == ("InvalidArgument", "INVALID_REQUEST")
    assert {"turn_id", "episode_id", "principal"} <= set(failure["fields"])
    assert shown[-1] == {"ended": ["shop COMPLETED", "rewards COMPLETED"]}
    assert record is not None


def test_the_lock_names_versions_and_hashes_but_no_address() -> None:
    """Any mirror that has the same files will do; what is not locked, or not what package.json says, stands out."""
    text = (PACKAGE / "package-lock.json").read_text(encoding="utf-8")
    lock = json.loads(text)
    wanted = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert "://" not in text
    assert "resolved" not in text
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    for name, version in (wanted["dependencies"] | wanted["devDependencies"]).items():
        assert packages[f"node_modules/{name}"]["version"] == version
