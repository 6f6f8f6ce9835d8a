"""A consumer-agent that has one turn after the other: `python -m examples.compose.consumer`."""

import asyncio
import json
import logging
from itertools import cycle
from pathlib import Path
from typing import Final

from subagents_client import SidecarClient, SubagentsError, ToolCall, TurnRequest

LOG: Final = logging.getLogger(__name__)
SOCKET: Final = Path("/run/sidecar/dispatch/sidecar.sock")
PAUSE: Final = 0.5
"""Seconds between two turns."""
ASKED: Final = (
    (("ask_shop", "Where can I get shoes?"),),
    (("ask_rewards", "How many points do I have?"),),
    (("ask_shop", "Anything for the garden?"), ("ask_rewards", "What is my tier?"), ("ask_support", "Where is it?")),
)
"""Calls of the turns, in place of a model."""


async def main() -> None:
    """Have turns until told to stop; a sidecar that is away is waited for."""
    async with SidecarClient.connect(f"unix:{SOCKET}", boot_secret_file=SOCKET.with_name("boot-secret")) as sidecar:
        for number, asked in enumerate(cycle(ASKED)):
            try:
                await turn(sidecar, f"user-{number % 20}", asked)
            except SubagentsError as problem:
                LOG.warning("%s", problem)
            await asyncio.sleep(PAUSE)


async def turn(sidecar: SidecarClient, user: str, asked: tuple[tuple[str, str], ...]) -> str:
    """Have one turn, and return what the user is told."""
    bound = await sidecar.bind_turn(TurnRequest(principal=user, episode_id=f"episode-{user}"))
    calls = [ToolCall(f"call-{n}", name, json.dumps({"request": text})) for n, (name, text) in enumerate(asked)]
    result = await bound.dispatch_and_wait(calls)
    said = " ".join(text for _, text in result.tool_messages())
    await bound.end(said)
    return said


if __name__ == "__main__":
    asyncio.run(main())
