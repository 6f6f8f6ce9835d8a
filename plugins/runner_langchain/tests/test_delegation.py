"""A card whose contract allows it gets a tool for each sub-agent of the turn."""

from plugins.runner_langchain.tests.support.agents import running_shop
from plugins.runner_langchain.tests.support.scripted_model import calls, repeats_results, says
from subagents.dispatch.v1 import outcome_pb2 as pb
from subagents_client.runner import Answer, Run
from tests.support.whole_chain import Chain

MAY_DELEGATE = {
    "      wall_clock: 30s\n      tool_calls: 6\n": "      wall_clock: 30s\n      max_delegation_depth: 1\n"
}
ASKED = ("ask_rewards", {"request": "how many points?"})


async def seven(run: Run, chain: Chain) -> Answer:
    """Answer for rewards."""
    return Answer(f"seven, to {run.request!r}")


async def test_the_model_may_ask_another_sub_agent_and_sees_its_answer() -> None:
    """Offered as a tool beside the card's own, with the description the orchestrator sees."""
    async with running_shop(calls(ASKED), repeats_results, edits=MAY_DELEGATE) as (chain, model):
        chain.use("rewards", seven)
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes

        assert outcome.outcome == pb.OUTCOME_SUCCEEDED
        assert outcome.narration == """("answer":"seven, to 'how many points?'")"""
        offered = [tool["function"] for tool in model.offered[0]]
        assert [each["name"] for each in offered][-2:] == ["ask_rewards", "ask_support"]
        assert offered[-2]["description"].startswith("Knows the user's points")


async def test_without_the_contract_no_such_tool_is_offered() -> None:
    """The card as it is shipped."""
    async with running_shop(says("alone")) as (chain, model):
        await chain.dispatch(await chain.bind(), "ask_shop")

        assert not [tool for tool in model.offered[0] if tool["function"]["name"].startswith("ask_")]


async def test_a_refusal_is_told_to_the_model() -> None:
    """The only tool call is used up by a search: nothing is left to hand on, and nobody is asked."""
    one_call = {old: f"{new}      tool_calls: 1\n" for old, new in MAY_DELEGATE.items()}
    search = ("search_offers", {"query": "coffee"})
    async with running_shop(calls(search), calls(ASKED), repeats_results, edits=one_call) as (chain, _):
        (outcome,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes

        assert outcome.narration.endswith("ask_rewards cannot be asked any more; answer with what you have.")
        assert not chain.runs_of("rewards")
