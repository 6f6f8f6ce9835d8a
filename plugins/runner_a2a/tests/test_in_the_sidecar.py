"""An A2A agent is a sub-agent of the real sidecar: bound, dispatched, recorded."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plugins.runner_a2a.tests.agents import Agent, Asked, Work
from subagents.dispatch.v1 import outcome_pb2
from subagents.history.v1 import history_pb2, history_pb2_grpc
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


async def test_a_question_of_the_agents_ends_the_child_with_the_question_in_its_detail() -> None:
    """It cannot be passed on to the user yet; the task is cancelled at the agent."""

    async def work(asked: Asked) -> None:
        await asked.updates.requires_input(asked.words("Which size of shoe?"))

    async with chained(work) as (agent, chain):
        bound = await chain.bind(turn_id="turn-a2a")
        result = await chain.dispatch(bound, "ask_shop")
        await agent.stopped.wait()
        (outcome,) = result.outcomes
        history = history_pb2_grpc.HistoryServiceStub(chain.channel)
        asked = history_pb2.GetTurnRequest(turn_id="turn-a2a", child_ids=[outcome.child_id])
        turn = await history.GetTurn(asked, metadata=chain.metadata, timeout=10)

    assert outcome.outcome == outcome_pb2.OUTCOME_FAILED
    assert outcome.attempts == 1
    details = [json.loads(event.details_json) for child in turn.children for event in child.events]
    told = [detail["detail"] for detail in details if "detail" in detail]
    assert told == ["input_required: the agent asks the user for input, which cannot be given yet: Which size of shoe?"]
