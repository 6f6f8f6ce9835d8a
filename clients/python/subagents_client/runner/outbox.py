"""The reports of a sub-agent that the stream has not sent yet; their number is limited."""

import asyncio
from collections import deque
from typing import Final

from subagents.runner.v1 import runner_pb2

MOST_WAITING: Final = 64
"""Maximum number of reports that wait for a slow reader. With more, `put` makes the sub-agent's function wait."""
MOST_COMPONENTS: Final = 64
"""Maximum number of components of one attempt."""


class Outbox:
    """Reports in the order in which they were added.

    Status and narration wait for room. Components do not wait, so their number is limited. Of usage, only the newest
    report is kept.
    """

    def __init__(self) -> None:
        self._waiting: deque[runner_pb2.RunResponse] = deque()
        self._usage: runner_pb2.UsageReport | None = None
        self._components = 0
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._waiting)

    async def put(self, report: runner_pb2.RunResponse) -> None:
        """Wait until there is room, then add a report."""
        while len(self._waiting) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._add(report)

    def put_component(self, component: runner_pb2.RenderedComponent) -> None:
        """Add a component.

        Raises:
            ValueError: the attempt already has `MOST_COMPONENTS` components.
        """
        if self._components >= MOST_COMPONENTS:
            raise ValueError(f"a sub-agent may render at most {MOST_COMPONENTS} components in one attempt")
        self._components += 1
        self._add(runner_pb2.RunResponse(component=component))

    def put_usage(self, usage: runner_pb2.UsageReport) -> None:
        """Add totals of usage, which replace totals that were not sent yet."""
        self._usage = usage
        self._something.set()

    def close(self) -> None:
        """Wake up the reader, because no more reports will be added."""
        self._something.set()

    async def wait(self) -> None:
        """Wait until a report is available or `close` was called."""
        await self._something.wait()

    def take(self) -> runner_pb2.RunResponse | None:
        """Remove and return the next report; None if there is none now. Usage follows all other reports."""
        if self._waiting:
            self._room.set()
            return self._waiting.popleft()
        if self._usage is not None:
            usage, self._usage = self._usage, None
            return runner_pb2.RunResponse(usage=usage)
        self._something.clear()
        return None

    def _add(self, report: runner_pb2.RunResponse) -> None:
        self._waiting.append(report)
        self._something.set()
