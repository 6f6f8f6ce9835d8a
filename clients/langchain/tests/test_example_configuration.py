"""The reference orchestrator on the example configuration and a sidecar process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import yaml
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from clients.langchain.tests.support.scripted_model import ScriptedModel, calling, composes, says
from subagents_client import SidecarClient, TurnRequest
from subagents_client.runner import Run, RunnerHost
from subagents_langchain import Orchestrator, TurnEvent
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, place, serving

BLOCKS = ROOT / "examples/config/prompts/components/platform"
TURN = TurnRequest(principal="user-1", episode_id="episode-1", locale="en-US")
CANARY = "CANARY of Forethought"


@asynccontextmanager
async def sidecar_with(sub_agents: Mapping[str, Any]) -> AsyncIterator[SidecarClient]:
    """Run the example configuration with these sub-agents behind it; give the orchestrator's client."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        targets = {f"SIDECAR__TARGETS__SLOTS__{slot.upper()}": f"unix:{folder}/{slot}.sock" for slot in sub_agents}
        for slot, doing in sub_agents.items():
            host = RunnerHost()
            host.sub_agent(slot)(doing)
            await stack.enter_async_context(host.serving(f"unix:{folder}/{slot}.sock"))
        sidecar = await stack.enter_async_context(serving(folder, environment=targets))
        yield await stack.enter_async_context(sidecar.client())


def block(name: str) -> str:
    """Return the text of a block of the platform."""
    return str(yaml.safe_load((BLOCKS / f"{name}.yaml").read_text())["instructions"]).strip()


@pytest.mark.system
@pytest.mark.seconds(60)
@requirement("PC2-D-13")
async def test_a_single_answer_is_composed_in_the_orchestrators_voice_under_the_platforms_rules() -> None:
    """The composing call has the persona, format and safety blocks in its prompt, and the same tools as the first."""
    model = ScriptedModel(steps=[calling("ask_shop"), composes])

    async def shop(run: Run) -> str:
        return "Coffee at 20 percent off."

    async with sidecar_with({"shop": shop}) as client:
        answer = await Orchestrator(client, model).answer(TURN, [HumanMessage("Offers?")])

    routing, composing = model.prompts
    for name in ("persona-orchestrator", "format-conversational", "safety-base"):
        assert block(name) in composing
    assert composing == routing
    assert model.tools_offered(1) == ["ask_shop", "ask_rewards", "ask_support"]
    assert answer.text == "Here is what I found: Coffee at 20 percent off."


@pytest.mark.system
@pytest.mark.seconds(60)
async def test_several_answers_are_composed_in_one_voice_in_the_order_asked() -> None:
    """Told to join them by short transitions, the model has both in its own order, though the second came first."""
    model = ScriptedModel(steps=[calling("ask_shop", "ask_support"), composes])
    second_is_done = asyncio.Event()

    async def shop(run: Run) -> str:
        await second_is_done.wait()
        return "Coffee at 20 percent off."

    async def support(run: Run) -> str:
        second_is_done.set()
        return "Your parcel comes today."

    async with sidecar_with({"shop": shop, "support": support}) as client:
        answer = await Orchestrator(client, model).answer(TURN, [HumanMessage("Offers? And my parcel?")])

    told = [one.content for one in model.shown[1] if isinstance(one, ToolMessage)]
    assert told == ["Coffee at 20 percent off.", "Your parcel comes today."]
    assert block("persona-orchestrator") in model.prompts[1]
    assert "one after the other, joined by short transitions, as a single text in your own voice" in model.prompts[1]
    assert isinstance(answer.messages[-1], AIMessage)
    assert answer.text == "Here is what I found: Coffee at 20 percent off.; Your parcel comes today."


@pytest.mark.system
@pytest.mark.seconds(60)
@requirement("PC1-D-44")
async def test_what_support_says_goes_into_composition_and_never_to_the_user_as_it_is() -> None:
    """Reached as `ask_support` and nothing else is known of it; its words, and progress, stay off the stream."""
    model = ScriptedModel(steps=[calling("ask_support"), says("Your parcel comes today.")])
    heard: list[TurnEvent] = []

    async def support(run: Run) -> str:
        await run.status(CANARY.lower().replace(" ", "_"))
        return CANARY

    async with sidecar_with({"support": support}) as client:
        answer = await Orchestrator(client, model).answer(TURN, [HumanMessage("My parcel?")], listener=heard.append)

    assert [one.content for one in model.shown[1] if isinstance(one, ToolMessage)] == [CANARY]
    assert "ask_support" in model.tools_offered(0)
    assert "support.sock" not in f"{model.shown} {model.offered}"
    assert answer.text == "Your parcel comes today."
    assert CANARY.lower() not in f"{heard} {answer.text}".lower().replace("_", " ")
