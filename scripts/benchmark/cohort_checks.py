"""Asks the process that checks cohorts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.load import Sample, sample_of
from scripts.benchmark.processes import Process, ServerLost, started

MODULE: Final = "cohort_check"
USUAL: Final = 4000
"""Users in a round."""


class CohortChecks:
    """A process that decides about users when it is asked to."""

    def __init__(self, process: Process) -> None:
        """Take a process that is ready."""
        self._process = process

    async def measure(self, users: int) -> Sample:
        """Have it decide about so many users; times are of one sub-agent.

        Raises:
            ServerLost: it ended; what it said is on standard error.
        """
        cpu = self._process.cpu_seconds()
        line = await self._process.ask(str(users))
        if not line:
            raise ServerLost(f"{MODULE} ended")
        taken: list[float] = json.loads(line)
        cpu = (self._process.cpu_seconds() - cpu) / users / MOST_CHILDREN
        return sample_of([each / MOST_CHILDREN for each in taken], users * MOST_CHILDREN / sum(taken), cpu)


@asynccontextmanager
async def cohort_checks(cpu: int | None) -> AsyncIterator[CohortChecks]:
    """Start it on one core. Raises `ServerLost`."""
    async with started(MODULE, [] if cpu is None else ["--cpu", str(cpu)]) as process:
        yield CohortChecks(process)
