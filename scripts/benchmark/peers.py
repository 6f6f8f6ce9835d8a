"""Frameworks that run sub-agents in the orchestrator's own process: measured there, in a process beside the bench."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from statistics import median
from typing import Final

from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.load import Sample
from scripts.benchmark.processes import Process, ServerLost, started

TOOL_NODE: Final = f"LangGraph ToolNode, {MOST_CHILDREN} tools of 20 ms"
SAVED: Final = f"LangGraph ToolNode with SqliteSaver, {MOST_CHILDREN} tools of 20 ms"
INSTANT_NODE: Final = "LangGraph ToolNode, 1 instant tool"
AGENTS: Final = f"create_agent, {MOST_CHILDREN} sub-agents of 20 ms"
NOT_INSTALLED: Final = "LangGraph not installed"
MODULE: Final = "langgraph_turns"
_NEEDED: Final = ("langchain", "langgraph")


class Peer:
    """A process that runs turns when it is asked to. The same target has one turn in flight."""

    def __init__(self, process: Process) -> None:
        """Take a process that is ready."""
        self._process = process

    async def measure(self, target: str, turns: int) -> Sample:
        """Have turns run, one after the other.

        Raises:
            ServerLost: it ended, perhaps over a wrong answer; what it said is on standard error.
        """
        cpu = self._process.cpu_seconds()
        line = await self._process.ask(json.dumps({"target": target, "turns": turns}))
        if not line:
            raise ServerLost(f"{MODULE} ended while it measured {target}")
        latencies: list[float] = json.loads(line)
        cpu = self._process.cpu_seconds() - cpu
        return Sample(turns / sum(latencies), median(latencies), cpu / turns, 1, 1.0)


def installed() -> bool:
    """Say whether LangGraph and LangChain can be imported."""
    return all(find_spec(name) is not None for name in _NEEDED)


@asynccontextmanager
async def langgraph(cpu: int | None) -> AsyncIterator[Peer | None]:
    """Start LangGraph in a process of its own, on one core; None if it is not installed. Raises `ServerLost`."""
    if not installed():
        yield None
        return
    async with started(MODULE, [] if cpu is None else ["--cpu", str(cpu)]) as process:
        yield Peer(process)
