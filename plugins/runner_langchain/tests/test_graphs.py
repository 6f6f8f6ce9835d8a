"""Graphs that a host registers, run as they are."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from msgspec.structs import replace

from plugins.runner_langchain.tests.support import requests
from sidecar.core.identifiers import ChildId, TurnId
from sidecar.policy.protocols import (
    Answering,
    Asked,
    ComponentMade,
    Continuation,
    Decision,
    QuestionKind,
    RunFinished,
    RunnerError,
    StatusReported,
)
from sidecar_runner_langchain import AgentRuntime, current_run
from subagents_client.runner import NeedsApproval
from tests.support.requirement import requirement


def graph_of(node: Any, **options: Any) -> Any:
    """Return a graph of one node."""
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(**options)


def tells(*events: Any) -> Any:
    """Return a node that writes events to the stream and answers `done`."""

    async def node(state: MessagesState) -> dict[str, Any]:
        for event in events:
            get_stream_writer()(event)
        return {"messages": [AIMessage("done")]}

    return node


@requirement("PC1-D-14")
async def test_what_a_nested_graph_writes_to_the_stream_is_reported() -> None:
    """Status, component and text of a graph inside a graph, in order; other events are the graph's own."""
    component = {"component": "render_offers", "tool_input": {"ids": [1]}, "component_data": {"offers": []}}
    inner = graph_of(tells({"status": "searching_offers", "attributes": {"n": 2}}, "own", component, {"mine": 1}))
    async with requests.running(AgentRuntime(graphs={"scripted": graph_of(inner)})) as runner:
        events = await requests.events_of(runner, requests.a_request(requests.a_card()))
        assert events[0] == StatusReported("searching_offers", {"n": "2"})
        assert events[1] == ComponentMade("render_offers", '{"ids":[1]}', '{"offers":[]}')
        assert requests.said(events) == "done"


@pytest.mark.parametrize("data", [{"offers": 3}, {}, object()])
async def test_a_graphs_component_is_held_to_the_cards_schema(data: Any) -> None:
    """Of the wrong type, without what is required, no JSON at all: the attempt fails, with the place and no value."""
    event = {"component": "render_offers", "tool_input": {}, "component_data": data}
    async with requests.running(AgentRuntime(graphs={"scripted": graph_of(tells(event))})) as runner:
        with pytest.raises(RunnerError) as failure:
            await requests.events_of(runner, requests.a_request(requests.a_card()))
        assert not failure.value.transient


async def test_a_graph_may_keep_checkpoints() -> None:
    """Each attempt has a thread of its own: nothing of one is in the other."""
    threads: list[int] = []

    async def node(state: MessagesState) -> dict[str, Any]:
        threads.append(len(state["messages"]))
        return {"messages": [AIMessage(current_run().prompt_suffix)]}

    graph = graph_of(node, checkpointer=InMemorySaver())
    async with requests.running(AgentRuntime(graphs={"scripted": graph})) as runner:
        for number in (1, 2):
            request = requests.a_request(child=f"child-{number}", user=f"user-{number}")
            assert requests.said(await requests.events_of(runner, request)) == request.prompt_suffix
    assert threads == [1, 1]


async def test_other_slots_of_the_host_are_run_from_their_cards() -> None:
    """A graph is registered for another slot only."""
    runtime = AgentRuntime(graphs={"other": graph_of(tells())}, models=lambda card: _never())
    async with requests.running(runtime) as runner:
        with pytest.raises(RunnerError, match="AssertionError"):
            await requests.events_of(runner, requests.a_request())


def test_the_current_run_is_there_inside_graphs_only() -> None:
    """Elsewhere it says so."""
    with pytest.raises(LookupError, match="no attempt here"):
        current_run()


def _never() -> Any:
    raise AssertionError("the card's model was asked for")


async def test_a_tool_of_a_graph_asks_back_and_finds_the_answer_in_the_run_that_continues() -> None:
    """The graph runs anew; what it needs from before is in its state."""

    async def orders(state: MessagesState) -> dict[str, Any]:
        given = current_run().continuation
        if given is None:
            raise NeedsApproval("Order two pairs?", about={"total": 18}, state=b"basket 7")
        return {"messages": [AIMessage(f"{given.approved}: {given.state.decode()}")]}

    answer = Answering("receipt", "", Decision.APPROVED)
    asked = Continuation(
        TurnId("t"), ChildId("c"), QuestionKind.NEEDS_APPROVAL, "Order two pairs?", '{"total": 18}', answer, b"basket 7"
    )
    async with requests.running(AgentRuntime(graphs={"scripted": graph_of(orders)})) as runner:
        request = requests.a_request(requests.a_card())
        (finished,) = await requests.events_of(runner, request)
        continued = await requests.events_of(runner, replace(request, continuation=asked))

    assert isinstance(finished, RunFinished)
    assert finished.asked == Asked(QuestionKind.NEEDS_APPROVAL, "Order two pairs?", '{"total": 18}', state=b"basket 7")
    assert requests.said(continued) == "True: basket 7"
