"""Counts the calls that are being served, for which a drain waits, and decides when calls start.

The count is not gRPC's, which would miss work that outlives its call.

Calls that arrive close together start in one pass of the event loop and run the same code side by side. A dispatch runs
hundreds of functions once. If gRPC's threads, the kernel and other dispatches run in between, the processor's caches no
longer hold that code when the next dispatch needs it, and the same work takes twice as long (docs/benchmarks.md). Calls
that start together stay together: each step runs for all of them before the next one. Source: Larus, Parkes, "Using
Cohort Scheduling to Enhance Server Performance", USENIX 2002.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, TypeAlias

MOST: Final = 16
"""The most calls in a batch. A larger batch brings no further gain, and its first call would wait for the last."""
QUIET_PASSES: Final = 6
"""Passes of the loop without another arrival after which a batch is complete. gRPC accepts one call at a time, and
needs a few passes for each."""
LONGEST_PASSES: Final = 12
"""Passes after which a batch starts although the previous batch still runs, i.e. waits for sub-agents or the disk."""
LONGEST_SECONDS: Final = 0.005
"""Seconds after which a running batch no longer delays a call."""


class InFlight:
    """Counts the calls that have arrived and are not answered, except those of `reserved` methods (`methods.py`)."""

    def __init__(self) -> None:
        self._by_method: Counter[str] = Counter()
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        """The number of calls."""
        return self._count

    def by_method(self) -> dict[str, int]:
        """Return the number of calls by method, for the log of a drain that ran out of time."""
        return {method: count for method, count in sorted(self._by_method.items()) if count}

    def begin(self, method: str) -> None:
        """Count one call; `end` must follow."""
        self._by_method[method] += 1
        self._count += 1
        self._idle.clear()

    def end(self, method: str) -> None:
        """Count a call as answered."""
        self._by_method[method] -= 1
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def idle(self) -> None:
        """Return once there are no calls."""
        await self._idle.wait()


class StartBatch:
    """Calls that started together; `running` counts those that have not ended."""

    __slots__ = ("running",)

    def __init__(self, running: int) -> None:
        self.running = running


Turn: TypeAlias = asyncio.Future[StartBatch]
"""Settles when it is a call's turn to start, with the batch that the call starts in. Not a conversation's turn."""


class StartBatches:
    """Decides when calls start. While no other call runs, a call starts in the next pass.

    Args:
        now: the clock; None: the event loop's.
    """

    __slots__ = ("_batch", "_began", "_no_wait", "_now", "_passes", "_quiet", "_ticking", "_waiting")

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now
        self._batch = StartBatch(0)
        self._began = 0.0
        self._waiting: deque[asyncio.Future[StartBatch]] = deque()
        self._ticking = False
        self._no_wait = True  # the next pass starts the waiting calls, whether or not more arrive
        self._quiet = self._passes = 0

    def join(self) -> Turn:
        """Return the future to await before a call starts; `leave` must follow in every case."""
        loop = asyncio.get_running_loop()
        turn: Turn = loop.create_future()
        self._waiting.append(turn)
        # An arrival: the quiet passes are counted from the newest one.
        self._quiet = 0
        if not self._ticking:
            # Without other calls there is nothing to wait for; after the limit, the batch probably waits for
            # sub-agents.
            self._no_wait = not self._batch.running or (self._now or loop.time)() - self._began > LONGEST_SECONDS
            # One chain of passes at a time: two would count each pass twice and start batches too early.
            self._ticking, self._passes = True, 0
            loop.call_soon(self._pass, loop)
        return turn

    @staticmethod
    def leave(turn: Turn) -> None:
        """Note that a call has ended, or that its client has left before the call started."""
        # A client may leave before its call has started; then the call is in no batch.
        if turn.done() and not turn.cancelled():
            turn.result().running -= 1

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the batch if it is complete; otherwise check again in the next pass."""
        self._quiet += 1
        self._passes += 1
        # While the previous batch runs, later calls collect; `LONGEST_PASSES` limits this.
        busy = self._batch.running and self._passes < LONGEST_PASSES
        if self._no_wait or len(self._waiting) >= MOST or not (busy or self._quiet < QUIET_PASSES):
            self._start(loop)
        # More than a full batch may have arrived. The rest forms the next batch, by the same rules.
        if self._waiting:
            loop.call_soon(self._pass, loop)
        else:
            self._ticking = False

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._began, self._no_wait, self._passes, self._quiet = (self._now or loop.time)(), False, 0, 0
        self._batch = batch = StartBatch(0)
        while self._waiting and batch.running < MOST:
            waiter = self._waiting.popleft()
            if not waiter.done():  # the client may have left while it waited
                batch.running += 1
                waiter.set_result(batch)
