"""How a definition refers to its tools: by name only, and what the framework makes of a name."""

import json
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from plugins.runner_langchain.tests.support.agents import running_shop
from plugins.runner_langchain.tests.support.scripted_model import calls, repeats_results
from sidecar_runner_langchain.card_tools import tools_of
from subagents.dispatch.v1 import outcome_pb2
from subagents_client.runner import Answer, Card, Run
from tests.support.requirement import requirement
from tests.support.whole_chain import Chain, running_chain

DECLARED = ("search_offers", "render_offer_card")


async def a_card_as_handed_to_a_host() -> Card:
    """Return the example's shop, as it arrives over gRPC."""
    seen: list[Card] = []

    async def keeps(run: Run, chain: Chain) -> Answer:
        seen.append(run.card)
        return Answer("kept")

    async with running_chain() as chain:
        chain.use("shop", keeps)
        await chain.dispatch(await chain.bind(), "ask_shop")
    return seen[0]


@requirement("PC1-D-41", "PC1-T-16")
async def test_each_name_becomes_one_langchain_tool_of_the_shape_that_is_declared_for_it() -> None:
    """A `BaseTool` under that name, with the registry's description and arguments, as a provider is shown them."""
    card = await a_card_as_handed_to_a_host()
    made = tools_of(card, {})
    shown: list[dict[str, Any]] = [convert_to_openai_tool(tool)["function"] for tool in made]

    assert all(isinstance(tool, BaseTool) for tool in made)
    assert tuple(tool.name for tool in made) == tuple(tool.tool_id for tool in card.tools) == DECLARED
    for function, tool in zip(shown, card.tools, strict=True):
        declared = json.loads(tool.arguments_schema_json)
        assert (function["name"], function["description"]) == (tool.tool_id, tool.description)
        assert function["parameters"]["properties"].keys() == declared["properties"].keys()
        assert function["parameters"]["required"] == declared["required"]


@requirement("PC1-T-16")
async def test_the_name_that_a_card_lists_is_the_one_that_the_framework_is_asked_for() -> None:
    """From the definition by way of the model's call to the gateway; the service behind it is the registry's matter."""
    async with running_shop(calls(("search_offers", {"query": "coffee"})), repeats_results) as (chain, model):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        offered = [tool["function"]["name"] for tool in model.offered[0]]
        asked = [call.enricher_id for call in chain.ccs.calls]

    assert outcome.outcome == outcome_pb2.OUTCOME_SUCCEEDED
    assert (tuple(offered), asked) == (DECLARED, ["offer_search"])


@pytest.mark.parametrize(
    "tool", ["{name: search_offers}", "{type: function, function: {name: search_offers}}", "search_planes"]
)
@requirement("PC1-D-41")
async def test_a_definition_cannot_bring_a_tool_of_its_own(tool: str) -> None:
    """A tool written out in the definition, in either spelling, or a name without an entry: never in force."""
    async with running_chain() as chain:
        before = (await chain.bind()).surface
        await chain.edit_badly({"tools: [search_offers, render_offer_card]": f"tools: [{tool}, render_offer_card]"})
        assert (await chain.bind()).surface.binding_digest == before.binding_digest
