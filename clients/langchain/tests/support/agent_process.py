"""An agent in a process of its own, to be killed: asks both sub-agents, with its checkpoints in a file.

python -m clients.langchain.tests.support.agent_process FOLDER
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from clients.langchain.tests.support.agents import asked, sqlite_saver
from clients.langchain.tests.support.scripted_model import ScriptedModel, Step, calling, composes
from subagents_client import SidecarClient
from subagents_langchain import Orchestrator


@asynccontextmanager
async def agent_in(folder: Path, *steps: Step, **more: Any) -> AsyncIterator[Orchestrator]:
    """Give an agent on the sidecar of a folder, with the checkpoints of every agent there."""
    secret = folder / "dispatch" / "boot-secret"
    target = f"unix:{folder}/dispatch/sidecar.sock"
    async with SidecarClient.connect(target, boot_secret_file=secret) as client, sqlite_saver(folder) as saver:
        yield Orchestrator(client, ScriptedModel(steps=list(steps)), checkpointer=saver, **more)


async def main(folder: Path) -> None:
    """Carry out the turn."""
    async with agent_in(folder, calling("ask_shop", "ask_rewards"), composes) as agent:
        await asked(agent)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
