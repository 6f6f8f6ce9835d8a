"""Factories that a host process is started with, by name."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from plugins.runner_langchain.tests.support.scripted_model import calls, repeats_results, says, scripted
from sidecar_runner_langchain import ModelMaker


def models() -> ModelMaker:
    """Return a maker of models that search and repeat what was found."""
    return lambda card: scripted(calls(("search_offers", {"query": "coffee"}), tokens=(9, 1)), repeats_results)


def graphs() -> dict[str, Any]:
    """Return a graph for `rewards`."""

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("a graph of its own")]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return {"rewards": builder.compile()}


def tools() -> dict[str, Any]:
    """Return a function for a local tool."""

    async def note(arguments: Any, run: Any) -> str:
        return "noted"

    return {"llm_feedback": note}


def nothing() -> str:
    """Return what no factory may return."""
    return says("no").text
