"""Which lane operations go over: opened where the sidecar offers it, renewed when it ends, none while there is none."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents_client.session.lane import Lane, Stream

FEATURE: Final = "session"
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 30.0
LEAVING_SECONDS: Final = 0.5
"""Seconds to tell the sidecar that the caller has stopped waiting."""
OPENING_SECONDS: Final = 5.0
"""A lane that has not said hello by then is given up."""


class Lanes:
    """The lanes of one client; at most one takes operations.

    Args:
        open_stream: calls `Session` with a deadline in seconds.
        now: monotonic seconds.
        uniform: a number between two, at random.
        enabled: use lanes at all.
    """

    def __init__(
        self,
        open_stream: Callable[[float], Stream],
        now: Callable[[], float],
        uniform: Callable[[float, float], float],
        *,
        enabled: bool,
    ) -> None:
        self._open_stream, self._now, self._uniform = open_stream, now, uniform
        self._enabled = enabled
        self._deadline = timedelta(0)
        self._lane: Lane | None = None
        self._next: Lane | None = None
        self._opening: asyncio.Task[None] | None = None
        self._known: list[Lane] = []
        self._previous_id = ""
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._pause = 0.0
        self._not_before = 0.0
        self._closed = False

    def offered(self, contract: pb.Contract) -> None:
        """Take note of what the sidecar offers; opens a lane if it is one, and there is none."""
        if self._enabled and FEATURE in contract.features and not self._closed:
            self._deadline = contract.session_deadline.ToTimedelta()
            self.current()

    def current(self) -> Lane | None:
        """Return the lane that takes operations; None: use the plain RPCs. Opens one if it should be there."""
        lane = self._lane
        if lane is not None and lane.usable:
            if lane.draining:
                self._open()
            return lane
        if self._deadline:
            self._open()
        return None

    async def ready(self) -> Lane | None:
        """Return the lane that takes operations; wait for it if it has to be opened first."""
        lane = self.current()
        if lane is None and self._next is not None and self._opening is not None:
            await asyncio.wait((self._opening,))
            lane = self.current()
        return lane

    async def close(self) -> None:
        """End all lanes; what is in flight fails here, and its client has gone away there."""
        self._closed = True
        for lane in self._known:
            lane.leave()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVING_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _open(self) -> None:
        now = self._now()
        if self._next is not None or self._closed or now < self._not_before:
            return
        lane = self._next = Lane(self._open_stream(self._deadline.total_seconds()), self._previous_id)
        self._known = [each for each in self._known if not each.over] + [lane]
        self._spawn(lane.run())
        self._opening = self._spawn(self._take_over(lane))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def _take_over(self, lane: Lane) -> None:
        """Let a lane take the place of the one before it, once it is open."""
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                await lane.opened.wait()
        except TimeoutError:
            lane.give_up()
        self._next = None
        if lane.hello is None or lane.over:
            self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
            wait = self._uniform(self._pause / 2, self._pause)
            self._not_before = self._now() + wait
            return
        self._pause = 0.0
        before, self._lane = self._lane, lane
        self._previous_id = lane.hello.lane_id
        if before is not None:
            before.retire()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled():
            task.exception()  # a lane ends as its stream does; operations have been told
