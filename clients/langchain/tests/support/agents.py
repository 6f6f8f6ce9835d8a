"""Agents with further middleware before or after the sidecar's, and conversations in a thread."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from clients.langchain.tests.support.talking import Talk
from subagents_client import TurnRequest
from subagents_langchain import ActiveTurn, Answer, Orchestrator, OrchestratorRules, SidecarMiddleware

THREAD: Final[RunnableConfig] = {"configurable": {"thread_id": "episode-1"}}
TURN: Final = TurnRequest(principal="user-1", episode_id="episode-1")
NO_HURRY: Final = OrchestratorRules(gather_timeout=timedelta(minutes=5))
"""Calls wait for each other: one that is waited for by mistake lets a test run out of time, every time."""
STRICT: Final = JsonPlusSerializer(allowed_msgpack_modules=None)
"""What `LANGGRAPH_STRICT_MSGPACK=true` makes of every checkpointer: no class is rebuilt but LangGraph's own."""

Others = Sequence[AgentMiddleware[Any, Any, Any]]


def agent(
    talk: Talk,
    *others: AgentMiddleware[Any, Any, Any],
    sidecar_first: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    rules: OrchestratorRules = NO_HURRY,
    **more: Any,
) -> Orchestrator:
    """Return an orchestrator on the talk's sidecar and models whose graph has the middleware in this order."""
    orchestrator = Orchestrator(talk.client, talk.model, summary_model=talk.summary_model, rules=rules)
    sidecar = SidecarMiddleware(talk.client, talk.summary_model, more.pop("own_tools", ()), rules)
    order: Others = [sidecar, *others] if sidecar_first else [*others, sidecar]
    orchestrator.graph = create_agent(
        talk.model, middleware=order, context_schema=ActiveTurn, checkpointer=checkpointer, **more
    )
    return orchestrator


def asks_first(*names: str, one_by_one: bool = False) -> HumanInTheLoopMiddleware[Any, Any, Any]:
    """Return a middleware that lets a person decide on calls of these tools."""
    tools = dict.fromkeys(names, True)
    return HumanInTheLoopMiddleware(tools, interrupt_mode="per_call") if one_by_one else HumanInTheLoopMiddleware(tools)


def decides(*decisions: dict[str, Any]) -> Command[Any]:
    """Return a person's answer to a batched request."""
    return Command(resume={"decisions": list(decisions)})


async def asked(orchestrator: Orchestrator, said: str | Command[Any] | None = "What is new?") -> Answer:
    """Carry out one turn in the thread, or go on with it."""
    given: list[AnyMessage] | Command[Any] | None = [HumanMessage(said)] if isinstance(said, str) else said
    return await orchestrator.answer(TURN, given, config=THREAD)


@asynccontextmanager
async def sqlite_saver(folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Keep checkpoints in a file; open it twice to be another process."""
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        saver.serde = STRICT
        yield saver
        async with saver.lock:  # a write of a cancelled run ends first: its cursor would keep the file locked
            await saver.conn.rollback()
