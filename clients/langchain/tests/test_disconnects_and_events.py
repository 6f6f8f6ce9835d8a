"""What becomes of running calls when the process goes away, and what LangChain's own streams show of tools."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from clients.langchain.tests.support.scripted_model import ScriptedModel, calling, says
from clients.langchain.tests.support.talking import talking
from clients.python.tests.support.fake_sidecar_host import scene
from subagents.dispatch.v1 import dispatch_pb2
from subagents_client import OnDisconnect, Outcome, SidecarClient, TurnRequest
from subagents_langchain import Orchestrator, OrchestratorRules, outcome_in, tools_of
from subagents_langchain.turn import active_turn
from tests.support.fake_runner import meets, raises
from tests.support.harness import SECRET, running_sidecar_for_tests


@pytest.mark.parametrize(
    ("rules", "sent", "seconds"),
    [
        (OrchestratorRules(), dispatch_pb2.ON_DISCONNECT_CANCEL, 0),
        (OrchestratorRules(on_disconnect=OnDisconnect.CONTINUE), dispatch_pb2.ON_DISCONNECT_CONTINUE, 0),
        (
            OrchestratorRules(on_disconnect=OnDisconnect.CONTINUE_UNTIL, continue_for=timedelta(seconds=7)),
            dispatch_pb2.ON_DISCONNECT_CONTINUE_UNTIL,
            7,
        ),
    ],
)
async def test_what_becomes_of_running_calls_is_a_choice(rules: OrchestratorRules, sent: Any, seconds: int) -> None:
    """Without one, and without checkpoints, they are cancelled, as no run can come back for them."""
    async with scene() as here:
        model = ScriptedModel(steps=[calling("ask_shop"), says("Done.")])
        orchestrator = Orchestrator(here.client, model, summary_model=model, rules=rules)
        await orchestrator.answer(here.request, [HumanMessage("What is new?")])
        request = next(one for _, one in here.sidecar.received if isinstance(one, dispatch_pb2.DispatchRequest))

    assert (request.on_disconnect, request.continue_for.seconds) == (sent, seconds)


async def test_sub_agents_are_tools_in_the_stream_of_events() -> None:
    """A start and an end for each call, under its name, with arguments and answer; one dispatch all the same."""
    async with talking(calling("ask_shop", "ask_rewards"), says("Done.")) as talk:
        rules = OrchestratorRules()
        seen: list[Any] = []
        async with active_turn(TurnRequest(principal="user-1", episode_id="episode-1"), rules) as active:
            given = {"messages": [HumanMessage("What is new?")]}
            async for event in talk.orchestrator.graph.astream_events(given, context=active, version="v2"):
                seen.append(event)  # noqa: PERF401  an async comprehension would hide what is asked for
        assert talk.dispatches == 1

    tools = [one for one in seen if one["event"] in {"on_tool_start", "on_tool_end"}]
    assert Counter((one["event"], one["name"]) for one in tools) == {
        (event, name): 1 for event in ("on_tool_start", "on_tool_end") for name in ("ask_shop", "ask_rewards")
    }
    answers = {one["name"]: one["data"]["output"].content for one in tools if one["event"] == "on_tool_end"}
    assert answers == {"ask_shop": "hello from shop", "ask_rewards": "hello from rewards"}


async def test_tools_of_sends_the_parallel_calls_of_an_agent_as_one_dispatch_and_marks_failures() -> None:
    """Two sub-agents wait for each other, and a third fails; an agent of one's own, without the middleware."""
    async with AsyncExitStack() as stack:
        sidecar = await stack.enter_async_context(running_sidecar_for_tests(cap=3))
        client = await stack.enter_async_context(SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET))
        sidecar.runner.use("shop", meets("support"))
        sidecar.runner.use("support", meets("shop"))
        sidecar.runner.use("rewards", raises(RuntimeError("CANARY")))
        turn = await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))
        model = ScriptedModel(steps=[calling("ask_shop", "ask_rewards", "ask_support"), says("Done.")])
        async with turn, asyncio.timeout(20):
            state = await create_agent(model, tools_of(turn)).ainvoke({"messages": [HumanMessage("What is new?")]})
        assert len(sidecar.recorder.of("dispatch_settled")) == 1

    answers = [one for one in state["messages"] if outcome_in(one)]
    assert [one.status for one in answers] == ["success", "error", "success"]
    assert [outcome.outcome for one in answers if (outcome := outcome_in(one))][1] is Outcome.FAILED
