"""Runs attempts: an agent made of the card, or a graph that a host registered."""

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
"""Exceptions that hold nothing of the user's, and may be logged as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """How far an agent may go. Time, tokens and data calls are the sidecar's to bound.

    Attributes:
        most_steps: of a graph; each round of an agent is two, a call of the model and one of its tools.
        most_mistakes: tool calls that do not fit and that the model is asked to correct.
        most_agents: kept between runs.
    """

    most_steps: int = 25
    most_mistakes: int = 4
    most_agents: int = 128


class AgentRuntime:
    """The one runtime class: each card or graph is data to it. Source: PC1-D-2, PC1-D-3.

    Args:
        models: makes the model of a card.
        local_tools: functions for tools that no data service backs, by tool id.
        graphs: compiled LangGraph graphs that run a slot as they are.
        history: reads a sub-agent's own earlier turns.
        limits: how far an agent may go.
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
        """Carry out one attempt.

        Raises:
            TransientFailure: the model's provider is away or overloaded.
            AgentFailed, CardNotRunnable: there is no answer. No text quotes the prompt or the user.
            AsksBack: a tool or node needs the user; see `current_run().continuation` for the answer.
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
