"""Agents that are killed in the middle of a dispatch: the next one has the same outcomes, and nothing runs twice."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from langgraph.types import Command

from clients.langchain.tests.support.agent_process import agent_in
from clients.langchain.tests.support.agents import THREAD, asked, asks_first
from clients.langchain.tests.support.scripted_model import calling, composes
from clients.langchain.tests.support.talking import routed
from clients.langchain.tests.support.verticals import Verticals
from subagents_langchain import validate_history
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT, SidecarProcess, place, serving


@asynccontextmanager
async def killed_agent(folder: Path, verticals: Verticals) -> AsyncIterator[None]:
    """Kill an agent while one sub-agent runs and the other has answered."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clients.langchain.tests.support.agent_process", str(folder)), cwd=ROOT
    )
    try:
        await verticals.running.wait()
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def dispatches_on_record(sidecar: SidecarProcess) -> dict[str, list[str]]:
    """Return the tools of each recorded dispatch, by its id."""
    async with sidecar.client() as client:
        (row,) = (await client.history.list_turns()).turns
        turn = await client.history.get_turn(row.turn_id)
        return {one.dispatch_id: [outcome.tool_name for outcome in one.outcomes] for one in turn.dispatches}


@pytest.mark.system
@pytest.mark.seconds(60)
@requirement("PC2-FR-8a")
async def test_the_next_agent_gets_the_outcomes_of_the_dispatch_that_a_killed_one_began() -> None:
    """SIGKILL in mid-dispatch. A new agent goes on from the checkpoint: same turn, same dispatch, each asked once."""
    verticals = Verticals()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        await stack.enter_async_context(verticals.serving(folder))
        sidecar = await stack.enter_async_context(serving(folder))
        async with killed_agent(folder, verticals):
            pass
        agent = await stack.enter_async_context(agent_in(folder, composes))
        kept = (await agent.graph.aget_state(THREAD)).values["sidecar_turn"]
        going_on = asyncio.ensure_future(asked(agent, None))
        verticals.let_go.set()
        answer = await going_on

        assert await dispatches_on_record(sidecar) == {kept["dispatch_ids"][0]: ["ask_shop", "ask_rewards"]}
    validate_history(answer.messages)
    assert sorted(verticals.asked) == ["rewards", "shop"]
    assert answer.text == "Here is what I found: hello from shop; hello from rewards"
    assert [result.dispatch_id for result in answer.results] == kept["dispatch_ids"]
    assert routed(answer) == [("shop", "succeeded"), ("rewards", "succeeded")]


@pytest.mark.system
@pytest.mark.seconds(60)
async def test_outcomes_survive_a_kill_of_the_agent_and_then_of_the_sidecar() -> None:
    """The agent is killed, the dispatch settles, the sidecar is killed: the next agent reads them from the record."""
    verticals = Verticals()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        await stack.enter_async_context(verticals.serving(folder))
        first = await stack.enter_async_context(serving(folder))
        async with killed_agent(folder, verticals):
            pass
        verticals.let_go.set()
        await until_settled(first)
        first.signal(signal.SIGKILL)
        await first.ended()
        await stack.enter_async_context(serving(folder))
        agent = await stack.enter_async_context(agent_in(folder, composes))
        answer = await asked(agent, None)

    assert sorted(verticals.asked) == ["rewards", "shop"]
    assert answer.text == "Here is what I found: hello from shop; hello from rewards"


@pytest.mark.system
@pytest.mark.seconds(60)
async def test_a_call_that_is_approved_after_a_restart_of_the_sidecar_runs_once() -> None:
    """It restarts while the person thinks; the record says that nothing was dispatched yet, so it is now."""
    verticals = Verticals()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(place())
        await stack.enter_async_context(verticals.serving(folder))
        first = await stack.enter_async_context(serving(folder))
        gate = asks_first("ask_rewards", one_by_one=True)
        async with agent_in(folder, calling("ask_rewards"), middleware=[gate]) as agent:
            await asked(agent)
        first.signal(signal.SIGKILL)
        await first.ended()
        await stack.enter_async_context(serving(folder))
        async with agent_in(folder, composes, middleware=[gate]) as agent:
            answer = await asked(agent, Command(resume={"type": "approve"}))

    assert verticals.asked == ["rewards"]
    assert answer.text == "Here is what I found: hello from rewards"
    assert answer.end is not None


async def until_settled(sidecar: SidecarProcess) -> None:
    """Wait until every call of the only turn has its outcome on record."""
    async with sidecar.client() as client, asyncio.timeout(20):
        (row,) = (await client.history.list_turns()).turns
        while True:
            turn = await client.history.get_turn(row.turn_id)
            if all(len(one.outcomes) == one.call_count for one in turn.dispatches):
                return
            await asyncio.sleep(0)
