"""The same turn in LangGraph: eight sub-agents that sleep 20 ms, in one process, with stub models and no network.

    python -m scripts.benchmark.langgraph_turns [--cpu N]

Reads a target and a number of turns from each line of standard input, and answers with the latencies, in seconds, as
a line of JSON. LangGraph as it comes: default settings, tracing off.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import uvloop
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from scripts.benchmark.definitions import ANSWER, MOST_CHILDREN, SLEEP_SECONDS
from scripts.benchmark.peers import AGENTS, INSTANT_NODE, TOOL_NODE
from scripts.benchmark.serving import READY, pin

TOOLS: Final = tuple(f"ask_{number}" for number in range(1, MOST_CHILDREN + 1))
REQUEST: Final = "Find three offers for running shoes and say until when they hold."

Turn = Callable[[], Awaitable[Sequence[BaseMessage]]]
"""Runs one turn and returns its messages."""


class WrongTurn(Exception):
    """Not every sub-agent answered; nothing is measured then."""


class Scripted(BaseChatModel):
    """A model without a model.

    Attributes:
        seconds: until it answers.
        tools: called, all at once, when the user has spoken last; none: it answers.
    """

    seconds: float = 0.0
    tools: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Return itself: what it calls is settled."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        asked = self.tools and isinstance(messages[-1], HumanMessage)
        answer = _calls(self.tools) if asked else AIMessage(ANSWER)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self._generate(messages)


def tool_node(tools: Sequence[str] = TOOLS, seconds: float = SLEEP_SECONDS) -> Turn:
    """Return a turn of `ToolNode` alone: eight calls in, eight results out, each tool sleeps."""

    async def answer(request: str) -> str:
        if seconds:
            await asyncio.sleep(seconds)
        return ANSWER

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([_tool(name, answer) for name in tools]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    compiled = graph.compile()

    async def turn() -> Sequence[BaseMessage]:
        return _messages(await compiled.ainvoke({"messages": [_calls(tools)]}))

    return turn


def agents() -> Turn:
    """Return a turn of an agent whose tools are agents: it calls eight, each of whose models sleeps, and answers."""
    outer = create_agent(Scripted(tools=TOOLS), [_sub_agent(name) for name in TOOLS])

    async def turn() -> Sequence[BaseMessage]:
        return _messages(await outer.ainvoke(_asked(REQUEST)))

    return turn


async def latencies(turn: Turn, turns: int, results: int = MOST_CHILDREN) -> list[float]:
    """Run turns one after the other and return how long each took, in seconds. Raises `WrongTurn`."""
    taken = []
    for _ in range(turns):
        began = time.perf_counter()
        messages = await turn()
        taken.append(time.perf_counter() - began)
        _check(messages, results)
    return taken


def _sub_agent(name: str) -> BaseTool:
    inner = create_agent(Scripted(seconds=SLEEP_SECONDS), [], name=name)

    async def ask(request: str) -> str:
        return str(_messages(await inner.ainvoke(_asked(request)))[-1].content)

    return _tool(name, ask)


def _tool(name: str, answer: Callable[[str], Awaitable[str]]) -> BaseTool:
    return StructuredTool.from_function(coroutine=answer, name=name, description="Answers with a kilobyte of text.")


def _calls(tools: Sequence[str]) -> AIMessage:
    calls = [{"name": name, "args": {"request": REQUEST}, "id": f"call_{name}"} for name in tools]
    return AIMessage("", tool_calls=calls)


def _asked(request: str) -> Any:
    return {"messages": [HumanMessage(request)]}


def _messages(state: Mapping[str, Any]) -> list[AnyMessage]:
    messages: list[AnyMessage] = state["messages"]
    return messages


def _check(messages: Sequence[BaseMessage], wanted: int) -> None:
    results = [one for one in messages if isinstance(one, ToolMessage)]
    if len(results) != wanted or any(one.status != "success" or one.content != ANSWER for one in results):
        raise WrongTurn(f"{wanted} sub-agents should have answered; the results are {results}")


def main() -> None:
    """Read the command line, and run turns until standard input ends."""
    parser = argparse.ArgumentParser(description="Turns in LangGraph.")
    parser.add_argument("--cpu", type=int)
    pin(parser.parse_args().cpu)
    os.environ["LANGSMITH_TRACING"] = "false"
    turns: Mapping[str, Turn] = {
        TOOL_NODE: tool_node(),
        INSTANT_NODE: tool_node(TOOLS[:1], 0.0),
        AGENTS: agents(),
    }
    print(READY, flush=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin:
            asked = json.loads(line)
            results = 1 if asked["target"] == INSTANT_NODE else MOST_CHILDREN
            taken = runner.run(latencies(turns[asked["target"]], asked["turns"], results))
            print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
