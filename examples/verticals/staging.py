"""What an example sub-agent does for the sake of its audience: take its time, and break when it is told to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from subagents_client.runner import Answer, Run

LOOK_EVERY: Final = 0.02


@dataclass(frozen=True, slots=True)
class Staging:
    """How an example behaves.

    Attributes:
        pace: factor on every pause; 0: none.
        broken_while: as long as this file exists, the sub-agent raises; None: never.
        held_while: as long as this file exists, the sub-agent is not done; None: never.
    """

    pace: float = 0.0
    broken_while: Path | None = None
    held_while: Path | None = None

    async def pause(self, seconds: float) -> None:
        """Work for a while, as a model would."""
        await asyncio.sleep(seconds * self.pace)

    async def held(self) -> None:
        """Wait until the demo no longer holds the sub-agent."""
        while self.held_while is not None and self.held_while.exists():  # noqa: ASYNC110  another process holds it
            await asyncio.sleep(LOOK_EVERY)


SubAgent = Callable[[Run, Staging], Awaitable[Answer]]


class PlantedDefect(Exception):
    """The sub-agent was told to break."""


def breakable(sub_agent: SubAgent, staging: Staging) -> Callable[[Run], Awaitable[Answer]]:
    """Return the function for the host: the sub-agent, with the defect if it is switched on."""

    async def run(run: Run) -> Answer:
        if staging.broken_while is not None and staging.broken_while.exists():
            await staging.pause(0.6)
            raise PlantedDefect(f"{run.sub_agent_id} was told to break by {staging.broken_while.name}")
        return await sub_agent(run, staging)

    return run
