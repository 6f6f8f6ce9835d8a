"""Cards run by the shared runtime: sidecar, gRPC, host, gateway, data service are real, only the model is scripted."""

import asyncio
import json
import logging
from typing import Any

import pytest

from examples.ccs.faults import FaultKind
from plugins.runner_langchain.tests.support.agents import by_persona, run_by, running_shop
from plugins.runner_langchain.tests.support.scripted_model import calls, repeats_results, results, says, scripted
from sidecar_runner_langchain import AgentRuntime
from subagents.dispatch.v1 import outcome_pb2 as pb
from tests.support.requests import a_call
from tests.support.requirement import requirement
from tests.support.whole_chain import running_chain

SEARCH = ("search_offers", {"query": "coffee"})
CARD = {"offer_id": "o-1", "title": "10 % back", "merchant": "Harbour Roasters", "points": 300}


@requirement("PC1-FR-3b")
async def test_a_card_becomes_an_agent_that_reads_data_and_answers() -> None:
    """One search through the gateway; the model sees the data of this user, and its last words are the answer."""
    async with running_shop(calls(SEARCH), repeats_results) as (chain, _):
        bound = await chain.bind(principal="user-7")
        (outcome,) = (await chain.dispatch(bound, "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_SUCCEEDED
        assert '"merchant":"Harbour Roasters"' in outcome.narration
        assert [(call.principal, call.enricher_id) for call in chain.ccs.calls] == [("user-7", "offer_search")]


async def test_the_model_is_offered_the_tools_of_the_card_as_they_are_declared() -> None:
    """Names, descriptions and schemas; our own annotation is not shown."""
    async with running_shop(says("nothing")) as (chain, model):
        await chain.dispatch(await chain.bind(), "ask_shop")
        search, render = (tool["function"] for tool in model.offered[0])
        assert search["name"] == "search_offers"
        assert search["description"].startswith("Finds offers")
        assert search["parameters"]["required"] == ["query"]
        assert "x-status" not in search["parameters"]
        assert render["parameters"]["properties"].keys() == CARD.keys()


@requirement("PC1-FR-3c")
async def test_a_component_travels_beside_the_text() -> None:
    """What the tool was given, and the component it made."""
    async with running_shop(calls(("render_offer_card", CARD)), says("Here is one.")) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_SUCCEEDED
        assert outcome.narration == "Here is one."
        (component,) = outcome.components
        assert component.name == "render_offer_card"
        assert json.loads(component.tool_input_json) == json.loads(component.component_data_json) == CARD


async def test_a_host_may_make_the_component_of_what_the_model_gave() -> None:
    """The model names an id, the function looks up the rest; the card's schema holds for what it makes."""

    async def render(arguments: Any, run: Any) -> Any:
        return {**arguments, "title": f"for {run.sub_agent_id}"}

    script = (calls(("render_offer_card", CARD)), says("Here."))
    async with running_shop(*script, local_tools={"render_offer_card": render}) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        (component,) = outcome.components
        assert json.loads(component.tool_input_json) == CARD
        assert json.loads(component.component_data_json)["title"] == "for shop"


async def test_a_component_that_does_not_fit_is_told_to_the_model_and_corrected() -> None:
    """Points as a word; the second try is right, and only that is shown."""
    wrong = calls(("render_offer_card", {**CARD, "points": "many"}))
    async with running_shop(wrong, calls(("render_offer_card", CARD)), repeats_results) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        told, shown = outcome.narration.split(" | ")
        assert told.startswith('points: "many" is not of type "integer"')
        assert "Correct the arguments" in told
        assert shown == "shown"
        assert len(outcome.components) == 1


async def test_a_component_is_held_to_the_cards_schema_beyond_the_tools_arguments() -> None:
    """A title that the tool takes but the component does not: the model is told, nothing is shown."""
    long = calls(("render_offer_card", {**CARD, "title": "x" * 201}))
    async with running_shop(long, repeats_results) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.narration.startswith("title: ")
        assert list(outcome.components) == []


async def test_corrections_have_an_end() -> None:
    """A model that always gets it wrong is told to stop, and its words still count."""
    wrong = calls(("search_offers", {"query": 7}))
    async with running_shop(*[wrong] * 5, repeats_results) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        told = outcome.narration.split(" | ")
        assert ["Do not call search_offers again" in each for each in told] == [False] * 4 + [True]
        assert chain.ccs.calls == ()


async def test_an_unknown_tool_is_told_to_the_model() -> None:
    """It recovers."""
    async with running_shop(calls(("search_planes", {})), calls(SEARCH), repeats_results) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_SUCCEEDED
        assert "search_planes is not a valid tool" in outcome.narration


@requirement("PC2-FR-12a")
async def test_withheld_data_is_unavailable_and_nothing_else() -> None:
    """Another user's envelope: the model reads two words, the outcome is degraded."""
    async with running_shop(calls(SEARCH), repeats_results) as (chain, model):
        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, canary="of-somebody-else")
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_DEGRADED
        assert outcome.data_unavailable
        assert results(model.shown[-1]) == ["data unavailable"]
        assert "of-somebody-else" not in str(model.shown)


async def test_an_answer_lacks_data_if_one_of_its_sources_gave_none() -> None:
    """Offers came, points did not: the gateway alone would not call that degraded."""
    edits = {"tools: [search_offers, render": "tools: [search_offers, points_balance, render"}
    async with running_shop(calls(SEARCH, ("points_balance", {})), says("Offers."), edits=edits) as (chain, _):
        chain.ccs.fault(FaultKind.DOWN, enricher_id="points_balance")
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_DEGRADED
        assert outcome.narration == "Offers."


@pytest.mark.parametrize("good_ones_before", [0, 1])
async def test_an_answer_lacks_nothing_if_its_source_gave_data_once(good_ones_before: int) -> None:
    """Asked twice, one time in vain; which of the two is the same."""
    async with running_shop(calls(SEARCH), calls(SEARCH), says("Offers.")) as (chain, _):
        chain.ccs.fault(FaultKind.DOWN, skip=good_ones_before, times=1)
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_SUCCEEDED
        assert len(chain.ccs.calls) == 2


async def test_partial_data_says_so() -> None:
    """A source that is not critical failed: the model can say so softly."""
    async with running_shop(calls(SEARCH), repeats_results) as (chain, _):
        chain.ccs.fault(FaultKind.PARTIAL)
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_SUCCEEDED
        assert outcome.narration.startswith('("partial":true')


async def test_tools_of_one_response_run_at_once() -> None:
    """Two components: each waits until the other is being made too."""
    both = asyncio.Barrier(2)

    async def meet(arguments: Any, run: Any) -> Any:
        async with asyncio.timeout(5):
            await both.wait()
        return {**arguments}

    script = (calls(*[("render_offer_card", CARD)] * 2), repeats_results)
    async with running_shop(*script, local_tools={"render_offer_card": meet}) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.narration == "shown | shown"
        assert len(outcome.components) == 2


@requirement("PC1-AC-2", "PC1-D-3")
async def test_a_new_vertical_is_a_card_and_blocks_and_no_code() -> None:
    """`travel` joins while everything runs: the same host, the same runtime."""
    shop, travel = scripted(says("shop here")), scripted(calls(SEARCH), repeats_results)
    runtime = AgentRuntime(models=by_persona({"shopping assistant": shop, "You know the rails": travel}))
    async with running_chain() as chain:
        chain.use("shop", run_by(runtime))
        chain.use("travel", run_by(runtime))
        persona = chain.folder / "config/prompts/components/travel/persona-travel.yaml"
        persona.parent.mkdir()
        persona.write_text(
            "type: persona\nname: persona-travel\nowner: travel\ninstructions: |\n  You know the rails.\n",
            encoding="utf-8",
        )
        await chain.edit(
            {"sub_agents: [shop,": "sub_agents: [travel, shop,", "  - id: shop\n": TRAVEL + "  - id: shop\n"}
        )
        result = await chain.dispatch(await chain.bind(), "ask_travel", "ask_shop")
        assert [each.outcome for each in result.outcomes] == [pb.OUTCOME_SUCCEEDED] * 2
        assert "Harbour Roasters" in result.outcomes[0].narration
        assert result.outcomes[1].narration == "shop here"
        prompt = str(travel.shown[0][0].content)
        assert prompt.index("You are part of one assistant") < prompt.index("You know the rails")


@requirement("PC1-AC-4")
async def test_one_edited_block_reaches_every_agent_that_uses_it() -> None:
    """A platform block: neither card is touched, no host restarts, no agent keeps the old words."""
    shop, rewards = scripted(says("a")), scripted(says("b"))
    runtime = AgentRuntime(models=by_persona({"shopping assistant": shop, "": rewards}))
    async with running_chain() as chain:
        for slot in ("shop", "rewards"):
            chain.use(slot, run_by(runtime))
        await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")
        await chain.edit_block("platform/safety-base.yaml", "instructions: |\n", "instructions: |\n  Never sing.\n")
        await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")
        for model in (shop, rewards):
            before, after = (str(messages[0].content) for messages in model.shown)
            assert "Never sing." not in before
            assert "Never sing." in after


async def test_a_budget_of_data_calls_ends_in_an_answer_with_what_there_is() -> None:
    """Two searches where one is allowed: the model is told, and answers."""
    script = (calls(SEARCH), calls(SEARCH), repeats_results)
    async with running_shop(*script, edits={"tool_calls: 6": "tool_calls: 1"}) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_DEGRADED
        assert outcome.narration.endswith("search_offers cannot be called any more; answer with what you have.")
        assert len(chain.ccs.calls) == 1


async def test_tokens_are_counted_against_the_cards_budget() -> None:
    """The second response goes beyond it: the attempt is stopped, what there was is kept as degraded."""
    script = (calls(("render_offer_card", CARD), tokens=(60, 10)), says("never told", (60, 10)))
    async with running_shop(*script, edits={"tool_calls: 6": "tokens: 100"}) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_DEGRADED
        assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (120, 20)


async def test_a_failing_agent_leaves_nothing_of_the_user_in_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """A provider whose error quotes the prompt: the host logs what was raised and where."""
    caplog.set_level(logging.INFO)

    def quotes(messages: Any) -> Any:
        raise ValueError(f"bad request: {messages}")

    async with running_shop(quotes) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(principal="canary-user"), "ask_shop")).outcomes
        assert outcome.outcome == pb.OUTCOME_FAILED
    assert "ValueError at test_agents_of_cards.py:" in caplog.text
    assert "canary-user" not in caplog.text


async def test_what_the_orchestrators_model_asked_reaches_the_model_after_what_it_inherits() -> None:
    """Summary and the user's own words stand in the message, never in the system prompt."""
    async with running_shop(says("ok")) as (chain, model):
        call = a_call("call-1", "ask_shop", '{"request": "cheap beans", "intent_count": 1}')
        bound = await chain.bind()
        await chain.dispatch(bound, call, prior_context="They drink espresso.", task_prompt="And beans?")
        system, asked = model.shown[0]
        assert asked.content == (
            "<prior_context>\nThey drink espresso.\n</prior_context>\n\n"
            "<user_message>\nAnd beans?\n</user_message>\n\ncheap beans"
        )
        assert "espresso" not in system.content


@requirement("PC1-FR-7a")
async def test_own_earlier_turns_are_read_through_the_gateway() -> None:
    """The second turn of an episode: what was asked and answered before stands in front."""
    async with running_shop(says("Beans are cheap.")) as (chain, model):
        for wish in ("beans", "tea"):
            bound = await chain.bind()
            call = a_call("call-1", "ask_shop", json.dumps({"request": wish}))
            await chain.dispatch(bound, call)
            await chain.end(bound)
        shown = [[str(message.content) for message in messages[1:]] for messages in model.shown]
        assert shown == [["beans"], ["beans", "Beans are cheap.", "tea"]]


TRAVEL = """\
  - id: travel
    description: Plans journeys by train. Not for orders.
    role: native
    model: gpt-5.4-mini-low
    tools: [search_offers]
    prompt_blocks: [persona-travel]

"""
