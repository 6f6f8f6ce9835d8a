"""What a person or another middleware has decided about a call holds, in whatever order the middleware stands."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, AgentState, ToolCallLimitMiddleware, hook_config
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import override

from clients.langchain.tests.support.agents import NO_HURRY, TURN, agent, asked, asks_first, decides
from clients.langchain.tests.support.scripted_model import calling, composes
from clients.langchain.tests.support.talking import Talk, routed, talking
from subagents_client import Outcome
from subagents_langchain import Answer, validate_history
from tests.support.fake_runner import hangs, meets
from tests.support.requirement import requirement

ORDERS = pytest.mark.parametrize("sidecar_first", [True, False], ids=["sidecar first", "sidecar last"])
THREE = ("ask_shop", "ask_rewards", "ask_support")
APPROVE: dict[str, Any] = {"type": "approve"}
REJECT: dict[str, Any] = {"type": "reject", "message": "too dear"}

ToolHandler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
Middleware = AgentMiddleware[Any, Any, Any]


def told(answer: Answer) -> list[str]:
    """Return the answers to tool calls."""
    validate_history(answer.messages)
    return [str(one.content) for one in answer.messages if isinstance(one, ToolMessage)]


def request_of(talk: Talk, slot: str) -> Any:
    """Return what a sub-agent was asked."""
    return json.loads(talk.sidecar.runner.request_of(slot).arguments_json)["request"]


def emitted(answer: Answer) -> list[list[str]]:
    """Return the sub-agents of each dispatch, in emission order."""
    return [[outcome.sub_agent_id for outcome in result.outcomes] for result in answer.results]


@ORDERS
@requirement("PC2-D-3")
async def test_a_call_that_a_person_rejects_is_not_run(sidecar_first: bool) -> None:
    """Of three calls one is rejected: the other two run, as one dispatch, and the model is told about the third."""
    async with talking(calling(*THREE), composes) as talk:
        talk.sidecar.runner.use("shop", meets("support"))
        talk.sidecar.runner.use("support", meets("shop"))
        orchestrator = agent(talk, asks_first(*THREE), sidecar_first=sidecar_first, checkpointer=InMemorySaver())
        waiting = await asked(orchestrator)

        assert (talk.sidecar.runner.started, talk.dispatches, waiting.text) == ([], 0, "")
        answer = await asked(orchestrator, decides(APPROVE, REJECT, APPROVE))

        assert sorted(talk.sidecar.runner.started) == ["shop", "support"]
    assert emitted(answer) == [["shop", "support"]]
    assert min(told(answer)).endswith("with reason: too dear")
    assert routed(answer) == [("shop", "succeeded"), ("support", "succeeded")]


@ORDERS
async def test_a_turn_whose_every_call_is_rejected_asks_no_sub_agent(sidecar_first: bool) -> None:
    """There is no dispatch at all."""
    async with talking(calling("ask_shop"), composes) as talk:
        orchestrator = agent(talk, asks_first("ask_shop"), sidecar_first=sidecar_first, checkpointer=InMemorySaver())
        await asked(orchestrator)
        answer = await asked(orchestrator, decides(REJECT))

        assert (talk.sidecar.runner.started, talk.dispatches) == ([], 0)
    assert (answer.results, routed(answer)) == ((), [])


@ORDERS
@pytest.mark.parametrize("one_by_one", [False, True], ids=["batched", "one by one"])
async def test_a_sub_agent_is_asked_what_the_person_has_made_of_the_call(sidecar_first: bool, one_by_one: bool) -> None:
    """The arguments are edited; what the model wrote reaches no sub-agent."""
    edited = {"type": "edit", "edited_action": {"name": "ask_shop", "args": {"request": "only the cheap ones"}}}
    async with talking(calling("ask_shop"), composes) as talk:
        orchestrator = agent(
            talk,
            asks_first("ask_shop", one_by_one=one_by_one),
            sidecar_first=sidecar_first,
            checkpointer=InMemorySaver(),
        )
        await asked(orchestrator)
        answer = await asked(orchestrator, Command(resume=edited) if one_by_one else decides(edited))

        assert request_of(talk, "shop") == "only the cheap ones"
        assert talk.sidecar.runner.started == ["shop"]
    assert "hello from shop" in told(answer)[0]


@ORDERS
async def test_an_edit_of_one_call_is_honoured_when_its_sibling_is_first(sidecar_first: bool) -> None:
    """Both go out together, the first as the model wrote it."""
    edited = {"type": "edit", "edited_action": {"name": "ask_rewards", "args": {"request": "this year"}}}
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        orchestrator = agent(talk, asks_first("ask_rewards"), sidecar_first=sidecar_first, checkpointer=InMemorySaver())
        await asked(orchestrator)
        answer = await asked(orchestrator, decides(edited))

        requests = [request_of(talk, slot) for slot in ("shop", "rewards")]
    assert requests == ["about ask_shop", "this year"]
    assert emitted(answer) == [["shop", "rewards"]]


@ORDERS
async def test_calls_that_are_approved_one_by_one_run_when_they_are(sidecar_first: bool) -> None:
    """Three calls, two of them for a person: the third runs at once, the approved one later, the rejected one never."""
    rules = replace(NO_HURRY, gather_timeout=timedelta(milliseconds=300))
    async with talking(calling(*THREE), composes) as talk:
        gate = asks_first("ask_shop", "ask_rewards", one_by_one=True)
        orchestrator = agent(talk, gate, sidecar_first=sidecar_first, checkpointer=InMemorySaver(), rules=rules)
        first = await asked(orchestrator)

        assert talk.sidecar.runner.started == ["support"]
        shop, rewards = sorted(first.interrupts, key=lambda one: str(one.value["name"]), reverse=True)
        second = await asked(orchestrator, Command(resume={shop.id: APPROVE}))
        assert talk.sidecar.runner.started == ["support", "shop"]
        assert [one.id for one in second.interrupts] == [rewards.id]
        answer = await asked(orchestrator, Command(resume={rewards.id: REJECT}))

        assert talk.sidecar.runner.started == ["support", "shop"]
        assert talk.dispatches == 2
    assert sorted(told(answer)) == [
        "User rejected the tool call for `ask_rewards` with reason: too dear",
        "hello from shop",
        "hello from support",
    ]
    assert routed(answer) == [("support", "succeeded"), ("shop", "succeeded")]


@ORDERS
async def test_a_limit_of_calls_lets_only_so_many_run(sidecar_first: bool) -> None:
    """`run_limit=1` and three calls: one runs."""
    async with talking(calling(*THREE), composes) as talk:
        answer = await asked(agent(talk, ToolCallLimitMiddleware(run_limit=1), sidecar_first=sidecar_first))

        assert talk.sidecar.runner.started == ["shop"]
    assert emitted(answer) == [["shop"]]
    assert len(told(answer)) == 3


@ORDERS
async def test_a_limit_that_ends_the_run_lets_no_call_run_and_its_words_are_the_answer(sidecar_first: bool) -> None:
    """The middleware jumps to the end; the turn is ended with what it says."""
    async with talking(calling(*THREE), composes) as talk:
        limit: Middleware = ToolCallLimitMiddleware(run_limit=1, exit_behavior="end")
        answer = await asked(agent(talk, limit, sidecar_first=sidecar_first))

        assert talk.sidecar.runner.started == []
    assert answer.text.startswith("Tool call limit reached")
    assert answer.end is not None


class Answers(AgentMiddleware[Any, Any, Any]):
    """Answers the calls of one tool by itself."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        if request.tool_call["name"] == self._name:
            return ToolMessage("from the cache", tool_call_id=request.tool_call["id"])
        return await handler(request)


@ORDERS
async def test_a_call_that_another_middleware_answers_is_not_run_and_does_not_hold_up_the_others(
    sidecar_first: bool,
) -> None:
    """Its siblings are one dispatch; where the sidecar's middleware cannot see the answer, after a moment."""
    rules = NO_HURRY if sidecar_first else replace(NO_HURRY, gather_timeout=timedelta(milliseconds=300))
    async with talking(calling(*THREE), composes) as talk:
        answer = await asked(agent(talk, Answers("ask_rewards"), sidecar_first=sidecar_first, rules=rules))

        assert sorted(talk.sidecar.runner.started) == ["shop", "support"]
    assert emitted(answer) == [["shop", "support"]]
    assert sorted(told(answer)) == ["from the cache", "hello from shop", "hello from support"]


class JumpsToTheTools(AgentMiddleware[Any, Any, Any]):
    """Answers the first call of a response and sends all of them to the tools."""

    @override
    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        message = state["messages"][-1]
        if not isinstance(message, AIMessage) or not message.tool_calls:
            return None
        call_id = message.tool_calls[0]["id"]
        return {"jump_to": "tools", "messages": [ToolMessage("No.", tool_call_id=call_id)]}


@ORDERS
async def test_a_call_that_has_an_answer_is_not_run_even_if_the_tools_are_called_with_it(sidecar_first: bool) -> None:
    """The answer stands; the other call runs."""
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        answer = await asked(agent(talk, JumpsToTheTools(), sidecar_first=sidecar_first))

        assert talk.sidecar.runner.started == ["rewards"]
    assert told(answer) == ["No.", "hello from rewards"]


class Twice(AgentMiddleware[Any, Any, Any]):
    """Runs every call twice, as a retry does."""

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        await handler(request)
        return await handler(request)


@ORDERS
async def test_a_call_that_another_middleware_repeats_is_run_once(sidecar_first: bool) -> None:
    """The second answer is the first one's outcome."""
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        answer = await asked(agent(talk, Twice(), sidecar_first=sidecar_first))

        assert sorted(talk.sidecar.runner.started) == ["rewards", "shop"]
    assert emitted(answer) == [["shop", "rewards"]]


class OneAtATime(AgentMiddleware[Any, Any, Any]):
    """Lets a call begin when the one before has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = asyncio.Lock()

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        async with self._lock:
            return await handler(request)


@ORDERS
async def test_calls_that_come_one_after_the_other_all_run(sidecar_first: bool) -> None:
    """Nobody waits for ever for a call that waits for its sibling's end: each is a dispatch."""
    rules = replace(NO_HURRY, gather_timeout=timedelta(0))
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        answer = await asked(agent(talk, OneAtATime(), sidecar_first=sidecar_first, rules=rules))

        assert talk.dispatches == 2
    # Which of the two comes first is up to the framework, which starts both at the same time.
    assert sorted(emitted(answer)) == [["rewards"], ["shop"]]
    assert sorted(told(answer)) == ["hello from rewards", "hello from shop"]


class Limited(AgentMiddleware[Any, Any, Any]):
    """Gives up one tool once another one has begun."""

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self._talk = talk

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        if request.tool_call["name"] != "ask_shop":
            return await handler(request)
        running = asyncio.ensure_future(handler(request))
        await self._talk.sidecar.runner.until_started("shop", "rewards")
        running.cancel()
        return ToolMessage("Took too long.", tool_call_id=request.tool_call["id"])


@ORDERS
async def test_a_call_that_another_middleware_gives_up_is_cancelled_and_its_siblings_go_on(sidecar_first: bool) -> None:
    """The sidecar is told, or the sibling would wait for the whole dispatch."""
    rules = replace(NO_HURRY, gather_timeout=timedelta(milliseconds=300))
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        talk.sidecar.runner.use("shop", hangs())
        answer = await asked(agent(talk, Limited(talk), sidecar_first=sidecar_first, rules=rules))

        assert talk.sidecar.runner.cancelled == ["shop"]
    assert sorted(told(answer)) == ["Took too long.", "hello from rewards"]
    assert [one.outcome for one in answer.results[0].outcomes] == [Outcome.FAILED, Outcome.SUCCEEDED]


class Holds(AgentMiddleware[Any, Any, Any]):
    """Holds the calls of one tool for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = asyncio.Event()

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        if request.tool_call["name"] == "ask_rewards":
            self.holding.set()
            await asyncio.Event().wait()
        return await handler(request)


@ORDERS
async def test_a_run_that_is_cancelled_while_a_call_is_held_sends_nothing(sidecar_first: bool) -> None:
    """Its sibling waits for it, and goes with it."""
    async with talking(calling("ask_shop", "ask_rewards")) as talk:
        holds = Holds()
        running = asyncio.ensure_future(asked(agent(talk, holds, sidecar_first=sidecar_first)))
        await holds.holding.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert (talk.sidecar.runner.started, talk.dispatches) == ([], 0)


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} is there"


@ORDERS
async def test_a_person_decides_on_own_tools_and_sub_agents_of_one_response(sidecar_first: bool) -> None:
    """The own tool runs as it always does, the rejected sub-agent does not, the other one does."""
    response = calling("ask_shop", "ask_rewards")
    response.tool_calls.append({"name": "look_up", "args": {"what": "coffee"}, "id": "own-1", "type": "tool_call"})
    async with talking(response, composes) as talk:
        gate = asks_first("ask_shop", "look_up")
        orchestrator = agent(talk, gate, sidecar_first=sidecar_first, checkpointer=InMemorySaver(), own_tools=[look_up])
        await asked(orchestrator)
        answer = await asked(orchestrator, decides(REJECT, APPROVE))

        assert talk.sidecar.runner.started == ["rewards"]
    assert sorted(told(answer))[1:] == ["coffee is there", "hello from rewards"]


async def test_streamed_events_show_each_sub_agent_as_a_tool() -> None:
    """Begin and end with the outcome, as `astream_events` has them for any tool."""
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        orchestrator = talk.orchestrator
        async with orchestrator.turn(TURN) as active:
            events = [
                event
                async for event in orchestrator.graph.astream_events(
                    {"messages": [("user", "?")]}, context=active, version="v2"
                )
                if event["event"].startswith("on_tool")
            ]
    begun = sorted(event["name"] for event in events if event["event"] == "on_tool_start")
    ended = sorted(event["data"]["output"].content for event in events if event["event"] == "on_tool_end")
    assert begun == ["ask_rewards", "ask_shop"]
    assert ended == ["hello from rewards", "hello from shop"]


async def test_a_graph_that_is_run_synchronously_is_refused_before_anything_is_asked() -> None:
    """The sidecar is only reached from an event loop."""
    async with talking(calling("ask_shop")) as talk:
        async with talk.orchestrator.turn(TURN) as active:
            with pytest.raises(TypeError, match="No synchronous function"):
                await asyncio.to_thread(talk.orchestrator.graph.invoke, {"messages": [("user", "?")]}, context=active)

        assert talk.dispatches == 0
