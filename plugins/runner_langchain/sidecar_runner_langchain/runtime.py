"""`AgentRuntime` runs attempts, with an agent made from the card or with a graph that the host registered."""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from sidecar_runner_langchain.agents import Agents
from sidecar_runner_langchain.attempt import KEY, Attempt
from sidecar_runner_langchain.card_tools import LocalTool
from sidecar_runner_langchain.failures import AgentFailed, CardNotRunnable, failure_of
from sidecar_runner_langchain.history import HistoryReader, own_turns
from sidecar_runner_langchain.messages import messages_for, narration_of
from sidecar_runner_langchain.models import ModelMaker, model_of
from sidecar_runner_langchain.reports import UsageReports, report
from subagents_client.runner import Answer, AsksBack, Run, TransientFailure
from subagents_errors import SubagentsError

OURS: Final = (AgentFailed, CardNotRunnable, TransientFailure, SubagentsError)
"""Exceptions whose texts contain no user data, and can be logged unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """The limits of an agent. The sidecar itself limits time, tokens and data calls.

    Attributes:
        most_steps: maximum number of steps of a graph in one attempt. One round of an agent has two steps: a call of
            the model and the calls of its tools.
        most_mistakes: maximum number of invalid tool calls in one attempt that the model may correct.
        most_agents: maximum number of agents that are kept between runs.
    """

    most_steps: int = 25
    most_mistakes: int = 4
    most_agents: int = 128


class AgentRuntime:
    """Runs the sub-agents of all cards and registered graphs. Source: PC1-D-2, PC1-D-3.

    Args:
        models: returns the chat model of a card.
        local_tools: tool id to the function of a tool without a data service.
        graphs: slot to a compiled LangGraph graph that runs in place of an agent made from the card.
        history: reads a sub-agent's own earlier turns.
        limits: limits of agents; None: the defaults.
    """

    def __init__(
        self,
        *,
        models: ModelMaker = model_of,
        local_tools: Mapping[str, LocalTool] | None = None,
        graphs: Mapping[str, Pregel[Any, Any, Any, Any]] | None = None,
        history: HistoryReader = own_turns,
        limits: AgentLimits | None = None,
    ) -> None:
        self._limits = limits or AgentLimits()
        self._agents = Agents(models, local_tools or {}, self._limits.most_agents)
        self._graphs = dict(graphs or {})
        self._history = history

    async def run(self, run: Run) -> Answer:
        """Run one attempt and return the answer.

        Raises:
            TransientFailure: the model's provider is unavailable or overloaded.
            AgentFailed, CardNotRunnable: there is no answer. The texts contain neither the prompt nor user data.
            AsksBack: a tool or node asks the user; `current_run().continuation` of a later run has the answer.
        """
        graph = self._graphs.get(run.sub_agent_id)
        if graph is None:
            graph = await self._agents.agent_for(run.card, run.delegates)
        attempt = Attempt(run, self._limits.most_mistakes)
        try:
            state = await self._last_state(graph, attempt)
        except (*OURS, AsksBack):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a graph raises may quote the prompt
            raise failure_of(error) from None
        narration = "" if attempt.narrated else narration_of(state)
        return Answer(narration, data_unavailable=attempt.data_unavailable)

    async def _last_state(self, graph: Pregel[Any, Any, Any, Any], attempt: Attempt) -> Any:
        run = attempt.run
        given = {"messages": messages_for(run, await self._history(run))}
        usage = UsageReports(run)
        config: RunnableConfig = {
            "configurable": {KEY: attempt, "thread_id": run.attempt_id},
            "callbacks": [usage],
            "recursion_limit": self._limits.most_steps,
        }
        state: Any = None
        # LangGraph types it as an iterator, but it is a generator and must be closed at once when the run is cancelled.
        stream: Any = graph.astream(given, config, stream_mode=["custom", "values"], subgraphs=True)
        try:
            async with aclosing(stream) as parts:
                async for namespace, mode, chunk in parts:
                    if mode == "custom":
                        await report(attempt, chunk)
                    elif not namespace:
                        state = chunk
        finally:
            usage.log()
        return state
