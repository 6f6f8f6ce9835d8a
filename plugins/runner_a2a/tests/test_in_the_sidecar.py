"""An A2A agent is a sub-agent of the real sidecar: bound, dispatched, recorded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plugins.runner_a2a.tests.agents import Agent, Asked, Work
from subagents.dispatch.v1 import dispatch_pb2, outcome_pb2, question_pb2
from tests.support.whole_chain import Chain, running_chain


@asynccontextmanager
async def chained(work: Work) -> AsyncIterator[tuple[Agent, Chain]]:
    """Run the example with an A2A agent behind `shop`."""
    agent = Agent(work)
    edits = {
        "    role: native\n    model: gpt-5.4-mini-low\n    tools: [search_offers": (
            "    role: native\n    runner: {kind: a2a}\n    model: gpt-5.4-mini-low\n    tools: [search_offers"
        )
    }
    async with agent.running() as url:
        more = {"plugins": {"enabled": ["sidecar-runner-a2a"]}, "targets": {"slots": {"shop": url}}}
        async with running_chain(edits, settings=more) as chain:
            yield agent, chain


async def test_its_answer_is_the_childs() -> None:
    """It works for the user of the turn, in a context of that call and conversation."""

    async def work(asked: Asked) -> None:
        await asked.say("Two offers", " in Zürich.")
        await asked.updates.complete()

    async with chained(work) as (agent, chain):
        bound = await chain.bind(principal="user-ada", episode_id="episode-7")
        result = await chain.dispatch(bound, "ask_shop", "ask_shop")

    assert [outcome.narration for outcome in result.outcomes] == ["Two offers in Zürich."] * 2
    assert [(each.identity["principal"], each.identity["episode_id"]) for each in agent.asked] == [
        ("user-ada", "episode-7")
    ] * 2
    assert len({each.context_id for each in agent.asked}) == 2


async def test_a_question_of_the_agents_is_answered_in_the_next_turn() -> None:
    """The task waits at the agent meanwhile; it has the context of the call that it began with."""

    async def work(asked: Asked) -> None:
        if len(agent.asked) == 1:
            await asked.updates.requires_input(asked.words("Which size of shoe?"))
        else:
            await asked.say(f"Size {asked.text} it is.")
            await asked.updates.complete()

    async with chained(work) as (agent, chain):
        bound = await chain.bind(turn_id="turn-a2a")
        (asking,) = (await chain.dispatch(bound, "ask_shop")).outcomes
        await chain.end(bound, narration="Which size?")
        again = await chain.bind(turn_id="turn-answer")
        answer = question_pb2.Answering(
            receipt=asking.question.receipt, text="42", answered_by=question_pb2.ANSWERER_USER
        )
        call = dispatch_pb2.ToolCall(
            call_id="call-1", tool_name="ask_shop", arguments_json='{"request": "42"}', answering=answer
        )
        result = await chain.dispatch(again, call)

    assert asking.outcome == outcome_pb2.OUTCOME_SUSPENDED
    assert asking.question.text == "Which size of shoe?"
    assert [outcome.narration for outcome in result.outcomes] == ["Size 42 it is."]
    assert agent.cancelled == []
