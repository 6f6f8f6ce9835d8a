"""The same turn in LangGraph: eight sub-agents that sleep 20 ms, in one process, with stub models and no network.

    python -m scripts.benchmark.langgraph_turns [--cpu N]

Reads a target and a number of turns from each line of standard input, and answers with the latencies, in seconds, as
a line of JSON. LangGraph as it comes: default settings, tracing off. With `SqliteSaver` it keeps checkpoints in a file,
each before the next step begins (`durability="sync"`).
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

import uvloop
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from scripts.benchmark.definitions import ANSWER, MOST_CHILDREN, SLEEP_SECONDS
from scripts.benchmark.peers import AGENTS, INSTANT_NODE, SAVED, TOOL_NODE
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


def tool_node(
    saver: AsyncSqliteSaver | None = None, tools: Sequence[str] = TOOLS, seconds: float = SLEEP_SECONDS
) -> Turn:
    """Return a turn of `ToolNode` alone: calls in, results out, each tool sleeps.

    With a saver, each turn is a thread of its own.
    """

    async def answer(request: str) -> str:
        if seconds:
            await asyncio.sleep(seconds)
        return ANSWER

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([_tool(name, answer) for name in tools]))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    compiled = graph.compile(checkpointer=saver)

    async def turn() -> Sequence[BaseMessage]:
        asked: Any = {"messages": [_calls(tools)]}
        if saver is None:
            return _messages(await compiled.ainvoke(asked))
        return _messages(await compiled.ainvoke(asked, {"configurable": {"thread_id": uuid4().hex}}, durability="sync"))

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


@asynccontextmanager
async def every_turn() -> AsyncIterator[Mapping[str, Turn]]:
    """Open the file of checkpoints, and return the turn of each target."""
    with TemporaryDirectory(prefix="bench-") as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/checkpoints.sqlite") as saver:
            instant = tool_node(None, TOOLS[:1], 0.0)
            yield {TOOL_NODE: tool_node(), SAVED: tool_node(saver), INSTANT_NODE: instant, AGENTS: agents()}


async def _answer() -> None:
    """Run turns until standard input ends, and nothing else meanwhile."""
    async with every_turn() as turns:
        print(READY, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            results = 1 if asked["target"] == INSTANT_NODE else MOST_CHILDREN
            print(json.dumps(await latencies(turns[asked["target"]], asked["turns"], results)), flush=True)


def main() -> None:
    """Read the command line, and run turns until standard input ends."""
    parser = argparse.ArgumentParser(description="Turns in LangGraph.")
    parser.add_argument("--cpu", type=int)
    pin(parser.parse_args().cpu)
    os.environ["LANGSMITH_TRACING"] = "false"
    uvloop.run(_answer())


if __name__ == "__main__":
    main()
