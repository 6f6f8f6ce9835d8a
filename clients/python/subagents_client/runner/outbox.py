"""What a sub-agent has reported and the stream has not yet taken. Bounded, whatever the function does."""

import asyncio
from collections import deque
from typing import Final

from subagents.runner.v1 import runner_pb2

MOST_WAITING: Final = 64
"""Reports that wait for a slow reader before the function is made to wait as well."""
MOST_COMPONENTS: Final = 64
"""Components of one attempt."""


class Outbox:
    """Reports in order. Status and narration wait for room; components are counted; usage keeps the newest."""

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
        """Add a report once there is room."""
        while len(self._waiting) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._add(report)

    def put_component(self, component: runner_pb2.RenderedComponent) -> None:
        """Add a component.

        Raises:
            ValueError: the attempt has made too many.
        """
        if self._components >= MOST_COMPONENTS:
            raise ValueError(f"a sub-agent may render at most {MOST_COMPONENTS} components in one attempt")
        self._components += 1
        self._add(runner_pb2.RunResponse(component=component))

    def put_usage(self, usage: runner_pb2.UsageReport) -> None:
        """Replace the totals that are yet to be sent."""
        self._usage = usage
        self._something.set()

    def close(self) -> None:
        """Wake up the reader: nothing will be added."""
        self._something.set()

    async def wait(self) -> None:
        """Wait until there is something to take, or `close` was called."""
        await self._something.wait()

    def take(self) -> runner_pb2.RunResponse | None:
        """Return the next report, or None if there is none now."""
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
