"""The sidecar that is measured: what it offers."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from clients.evals.tests.support.trials import SUITE
from subagents_client import TurnRequest
from subagents_evals.inputs.configuration import read_configuration
from subagents_evals.runs.stage import started_environment
from tests.architecture.reading import REPOSITORY

MORE = 9
"""With the example's three, more than a sidecar offers if nothing else is set."""


@pytest.mark.system
async def test_every_sub_agent_of_a_large_configuration_is_offered(tmp_path: Path) -> None:
    """Twelve of them: none is measured as one that the model overlooks, while it was not offered."""
    folder = Path(shutil.copytree(REPOSITORY / "examples" / "config", tmp_path / "config"))
    file = folder / "agent_config.yaml"
    content: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
    orchestrator, shop = content["agents"][:2]
    copies = [{**deepcopy(shop), "id": f"shop-{number}"} for number in range(MORE)]
    orchestrator["sub_agents"] += [one["id"] for one in copies]
    content["agents"] += copies
    file.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), "utf-8")
    configuration = read_configuration(folder)

    async with started_environment(configuration, SUITE) as stage:
        turn = await stage.client.bind_turn(TurnRequest(principal="one", episode_id="one"))
        await turn.end()

    offered = [one.name.removeprefix("ask_") for one in turn.surface.sub_agent_tools]
    assert offered == list(configuration.slots) == orchestrator["sub_agents"]
