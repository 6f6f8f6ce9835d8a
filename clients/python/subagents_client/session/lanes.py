"""`Lanes`, the session lanes of one client: opens a lane if the sidecar offers it, and replaces a lane that ends."""

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
"""Maximum seconds for telling the sidecar that the operations in flight are abandoned."""
OPENING_SECONDS: Final = 5.0
"""Maximum seconds until the hello of the sidecar; a later lane is given up."""


class Lanes:
    """The lanes of one client. At most one of them accepts operations.

    Args:
        open_stream: calls the RPC `Session` with a deadline in seconds.
        now: returns seconds of a monotonic clock.
        uniform: returns a random number between two numbers.
        enabled: whether lanes are used at all.
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
        """Process the contract of the sidecar: open a lane if the sidecar offers lanes and there is none."""
        if self._enabled and FEATURE in contract.features and not self._closed:
            self._deadline = contract.session_deadline.ToTimedelta()
            self.current()

    def current(self) -> Lane | None:
        """Return the lane that accepts operations; None: use plain RPCs, while a lane opens in the background."""
        lane = self._lane
        if lane is not None and lane.usable:
            if lane.draining:
                self._open()
            return lane
        if self._deadline:
            self._open()
        return None

    async def ready(self) -> Lane | None:
        """Return the lane that accepts operations; wait for a lane that is being opened. None: use plain RPCs."""
        lane = self.current()
        if lane is None and self._next is not None and self._opening is not None:
            await asyncio.wait((self._opening,))
            lane = self.current()
        return lane

    async def close(self) -> None:
        """End all lanes. Operations in flight fail; for the sidecar, their client has disconnected."""
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
        """Wait until a new lane is open, then replace the previous lane by it; after a failure, set the next pause."""
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
            task.exception()  # retrieved to avoid a warning; the operations of the lane have already failed
