"""The runner `langchain` passes the suite that every runner has to, with a graph that does what it is asked."""

import asyncio
import json
from collections import defaultdict
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import StreamWriter

from plugins.runner_langchain.tests.support.requests import NO_GATEWAY
from plugins.runner_langchain.tests.support.scripted_model import says, scripted
from sidecar.core.identifiers import EpisodeId, Principal, TurnId
from sidecar.policy.protocols import InheritedContext, Runner
from sidecar_conformance import runner_bench as script
from sidecar_conformance.runner import AgentScript, RunnerBench, RunnerSuite, SeenRun
from sidecar_runner_langchain import AgentRuntime, current_run
from sidecar_runner_langchain.in_process import LangChainRunner

MODEL = scripted(says("counted", (script.INPUT_TOKENS, script.OUTPUT_TOKENS)))


class GraphBench(RunnerBench):
    """A LangGraph graph for the slot `scripted`, and runners that execute it in this process."""

    def __init__(self) -> None:
        self.seen: list[SeenRun] = []
        self._started: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        builder = StateGraph(MessagesState)
        builder.add_node("play", self._play)
        builder.add_edge(START, "play")
        self._runtime = AgentRuntime(graphs={"scripted": builder.compile()})

    def make(self) -> Runner:
        """Make one as the composition root would."""
        return LangChainRunner(self._runtime.run, NO_GATEWAY)

    def make_without_host(self) -> Runner:
        """Make one; there is no host that could be away."""
        return self.make()

    async def started(self, child_id: str) -> None:
        """Wait for the graph to work."""
        await self._started[child_id].wait()

    async def ended(self, child_id: str) -> None:
        """Wait for the graph to stop."""
        await self._ended[child_id].wait()

    async def _play(self, state: MessagesState) -> dict[str, Any]:
        run = current_run()
        self.seen.append(_seen())
        self._started[run.child_id].set()
        try:
            await _act(AgentScript(run.request), state)
        finally:
            self._ended[run.child_id].set()
        return {"messages": [AIMessage("" if run.request == AgentScript.EMPTY else "told already")]}


async def _act(wanted: AgentScript, state: MessagesState) -> None:
    write = get_stream_writer()
    match wanted:
        case AgentScript.FAIL:
            raise RuntimeError(script.FAILURE)
        case AgentScript.HANG:
            await asyncio.Event().wait()
        case AgentScript.NO_DATA:
            write({"narration": "There is nothing."})
            write({"data_unavailable": True})
        case AgentScript.FAIL_LATE:
            _tell(write)
            raise RuntimeError(script.FAILURE)
        case AgentScript.ANSWER:
            write({"status": script.STATUS_TYPE, "attributes": script.STATUS_ATTRIBUTES})
            _tell(write)
            await MODEL.ainvoke(state["messages"])


def _tell(write: StreamWriter) -> None:
    made = {"component": script.COMPONENT, "tool_input": json.loads(script.TOOL_INPUT_JSON)}
    write({**made, "component_data": json.loads(script.COMPONENT_DATA_JSON)})
    for part in script.NARRATION:
        write({"narration": part})


def _seen() -> SeenRun:
    run = current_run()
    context = run.context
    inherited = InheritedContext(
        principal=Principal(context.principal),
        episode_id=EpisodeId(context.episode_id),
        turn_id=TurnId(context.turn_id),
        locale=context.locale,
        location=context.location,
        prior_context=context.prior_context,
        task_prompt=context.task_prompt,
    )
    return SeenRun(run.child_id, inherited, json.dumps(dict(run.arguments)), json.dumps(dict(run.contract)), None)


class TestLangChain(RunnerSuite):
    """`langchain`, in this process."""

    closed = frozenset({"remote"})

    @pytest.fixture
    def bench(self) -> GraphBench:
        """Make one."""
        return GraphBench()
