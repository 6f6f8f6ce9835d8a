"""Sub-agents for a sidecar in a process of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from subagents_client.runner import Run, RunnerHost


@dataclass(slots=True)
class Verticals:
    """Two sub-agents in a host of their own; shop never ends until it is let go.

    Attributes:
        asked: the sub-agents in the order in which their attempts began.
    """

    running: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[None]:
        """Serve both where the sidecar's settings look for them."""
        async with AsyncExitStack() as stack:
            for slot in ("shop", "rewards"):
                host = RunnerHost()
                host.any_sub_agent()(self._run)
                await stack.enter_async_context(host.serving(f"unix:{folder}/{slot}.sock"))
            stack.callback(self.let_go.set)
            yield

    async def _run(self, run: Run) -> str:
        self.asked.append(run.sub_agent_id)
        if run.sub_agent_id == "shop":
            self.running.set()
            await self.let_go.wait()
        return f"hello from {run.sub_agent_id}"
