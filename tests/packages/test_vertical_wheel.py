"""A vertical's wheel with two plugins: built, installed beside the sidecar's, selected, upgraded while others serve."""

import asyncio
import json
import sysconfig
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from scripts.build_packages import build
from subagents_client import ToolCall, TurnRequest
from subagents_client.runner import Run, RunnerHost
from tests.packages.built import BuiltPackage
from tests.packages.environments import Environment
from tests.support.sidecar_process import SidecarProcess, place, settings_file, started

PROJECT: Final = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "rewards-plugins"
version = "{version}"

[project.entry-points."sidecar.plugins"]
rewards-runner = "rewards_plugins.runner"
rewards-gates = "rewards_plugins.gates"

[tool.hatch.build.targets.wheel]
packages = ["rewards_plugins"]
"""
RUNNER: Final = """
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.protocols import NarrationPart, RunFinished
from sidecar.policy.specs import RunnerSpec

class Runner:
    target = "in this process"

    async def run(self, request):
        yield NarrationPart("points by {version}")
        yield RunFinished()

    async def close(self):
        pass

@hookimpl
def sidecar_runners():
    made = lambda config: Runner()
    return [RunnerSpec(name="rewards-runner", contract="runner/1", summary="Runs rewards", factory=made)]
"""
GATES: Final = """
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.lifecycle import GateUnavailable
from sidecar.policy.specs import GateClientSpec

class Gates:
    async def ask(self, question):
        raise GateUnavailable("no verdict yet")

    async def close(self):
        pass

@hookimpl
def sidecar_gate_clients():
    made = lambda settings: Gates()
    return [GateClientSpec(name="rewards-gates", contract="gate-client/1", summary="Asks", factory=made)]
"""
MORE: Final = """
[plugins]
enabled = ["rewards-plugins"]

[policy.verticals.rewards]
runner = "rewards-runner"
gates = "rewards-gates"
"""


def wheel_of(version: str, folder: Path) -> Path:
    """Build the vertical's wheel."""
    project = folder / f"rewards-{version}"
    (project / "rewards_plugins").mkdir(parents=True)
    (project / "pyproject.toml").write_text(PROJECT.format(version=version))
    (project / "rewards_plugins" / "__init__.py").touch()
    (project / "rewards_plugins" / "runner.py").write_text(RUNNER.format(version=version))
    (project / "rewards_plugins" / "gates.py").write_text(GATES)
    return build(project, folder)[1]


@asynccontextmanager
async def serving(folder: Path, environment: Environment) -> AsyncIterator[SidecarProcess]:
    """Start the installed sidecar, and the host of `shop`."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return "an offer"

    variables = {"PYTHONPATH": ""}
    async with (
        host.serving(f"unix:{folder}/shop.sock"),
        started(folder, more=MORE, environment=variables, interpreter=environment.python) as sidecar,
    ):
        await sidecar.event("sidecar.readiness")
        yield sidecar


async def answer(sidecar: SidecarProcess, name: str, number: int = 0) -> str:
    """Ask one sub-agent in a turn of its own; return what it said."""
    async with sidecar.client() as client:
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id=f"{name}-{number}"))
        result = await turn.dispatch_and_wait([ToolCall("call-1", f"ask_{name}", '{"request": "please"}')])
        await turn.end("done")
    return result.outcomes[0].narration


def versions(environment: Environment, file: Path) -> dict[str, tuple[str, str]]:
    """Return state and version of the vertical's plugins, as `sidecar plugins list` shows them."""
    rows: list[dict[str, Any]] = json.loads(
        environment.run("sidecar", "plugins", "list", "--json", "--config", str(file))
    )
    return {row["name"]: (row["state"], row["version"]) for row in rows if row["distribution"] == "rewards-plugins"}


@pytest.mark.system
@pytest.mark.seconds(180)
async def test_a_verticals_wheel_is_upgraded_while_another_vertical_serves(
    built: Sequence[BuiltPackage], tmp_path: Path
) -> None:
    """A running sidecar keeps the version that it has loaded; one that starts beside it has the new one."""
    environment = Environment(tmp_path / "environment", [sysconfig.get_path("purelib")])
    ours = [str(each.wheel) for each in built if each.name in {"dispatch-sidecar", "subagents-proto"}]
    offline = ["--no-index", "--no-deps"]
    environment.install(*offline, *ours, str(wheel_of("1.0.0", tmp_path)))
    newer = wheel_of("2.0.0", tmp_path)

    with place() as folder, place() as beside:
        before = versions(environment, settings_file(folder, MORE))
        async with serving(folder, environment) as old:
            upgrade = asyncio.create_task(asyncio.to_thread(environment.install, *offline, str(newer)))
            served = [await answer(old, "shop")]
            while not upgrade.done():
                served.append(await answer(old, "shop", len(served)))
            await upgrade
            async with serving(beside, environment) as new:
                rewards = [await answer(old, "rewards"), await answer(new, "rewards")]
                served += [await answer(old, "shop", 1000), await answer(new, "shop")]
        after = versions(environment, settings_file(folder, MORE))

    assert before == dict.fromkeys(("rewards-runner", "rewards-gates"), ("active", "1.0.0"))
    assert after == dict.fromkeys(("rewards-runner", "rewards-gates"), ("active", "2.0.0"))
    assert rewards == ["points by 1.0.0", "points by 2.0.0"]
    assert set(served) == {"an offer"}
