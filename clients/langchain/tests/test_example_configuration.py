"""The reference orchestrator on the example configuration and a sidecar process."""

from contextlib import AsyncExitStack

import pytest
import yaml
from langchain_core.messages import HumanMessage

from clients.langchain.tests.support.scripted_model import ScriptedModel, calling, composes
from subagents_client import TurnRequest
from subagents_client.runner import Run, RunnerHost
from subagents_langchain import Orchestrator
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place, serving

BLOCKS = ROOT / "examples/config/prompts/components/platform"


@pytest.mark.system
@pytest.mark.seconds(60)
@requirement("PC2-D-13")
async def test_a_single_answer_is_composed_in_the_orchestrators_voice_under_the_platforms_rules() -> None:
    """The composing call has the persona, format and safety blocks in its prompt, and the same tools as the first."""
    model = ScriptedModel(steps=[calling("ask_shop"), composes])
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        return "Coffee at 20 percent off."

    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        await stack.enter_async_context(host.serving(f"unix:{folder}/shop.sock"))
        sidecar = await stack.enter_async_context(serving(folder))
        client = await stack.enter_async_context(sidecar.client())
        turn = TurnRequest(principal="user-1", episode_id="episode-1", locale="en-US")
        answer = await Orchestrator(client, model).answer(turn, [HumanMessage("Offers?")])

    routing, composing = model.prompts
    for name in ("persona-orchestrator", "format-conversational", "safety-base"):
        assert yaml.safe_load((BLOCKS / f"{name}.yaml").read_text())["instructions"].strip() in composing
    assert composing == routing
    assert model.tools_offered(1) == ["ask_shop", "ask_rewards", "ask_support"]
    assert answer.text == "Here is what I found: Coffee at 20 percent off."
