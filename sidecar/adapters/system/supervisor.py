"""Restarts the background loops of the sidecar when they fail, and makes garbage collections rarer."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

YOUNG: Final = 50_000
"""Objects that are created between two collections of the youngest generation; the default is 700: three dispatches."""
MIDDLE: Final = 20
OLD: Final = 100


def reduce_gc_frequency() -> None:
    """Exclude the objects of the start from garbage collection, and collect the others rarely.

    Call once, when everything is built. Turns and dispatches live for minutes and most are freed by reference counts;
    examining all of them again and again took a third of the sidecar's time (docs/benchmarks.md).
    """
    # First: `freeze` would keep the garbage of the start for ever.
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


FIRST_WAIT: Final = 0.2
LONGEST_WAIT: Final = 10.0
"""Seconds before a restart: the first number after a healthy run, otherwise twice the last pause, up to the second.

A loop that always fails must not occupy the event loop, and must work again soon after an outage.
"""
HEALTHY_AFTER: Final = 60.0
"""Seconds that a loop must run before its next failure counts as the first one again."""


class LoopEnded(Exception):
    """A loop that must never return has returned."""


class LoopObserver(Protocol):
    """Receives the state of the loops. Its methods must not raise."""

    def loop_down(self, name: str, error: BaseException) -> None:
        """Note that a loop has ended and is not running."""

    def loop_up(self, name: str) -> None:
        """Note that a loop runs again."""


class Supervisor:
    """Runs loops, and restarts a loop whenever it ends.

    Args:
        observer: receives each end and each restart.
        pause: waits a number of seconds.
    """

    def __init__(self, observer: LoopObserver, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._observer = observer
        self._pause = pause

    async def keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run a loop until this call is cancelled."""
        wait, loop = FIRST_WAIT, asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._observer.loop_down(name, await self._end_of(run))
            wait = FIRST_WAIT if loop.time() - began > HEALTHY_AFTER else min(2 * wait, LONGEST_WAIT)
            await self._pause(wait)
            self._observer.loop_up(name)

    async def _end_of(self, run: Callable[[], Awaitable[None]]) -> BaseException:
        """Run a loop until it ends, and return its exception. A cancellation of the supervisor itself is raised."""
        task = asyncio.current_task()
        try:
            await run()
        except asyncio.CancelledError as stray:
            # If this task was not cancelled, the loop itself raised the exception, e.g. in a client library.
            if task is not None and task.cancelling():
                raise
            return stray
        except BaseException as error:  # noqa: BLE001  a plugin's loop may raise SystemExit
            return error
        return LoopEnded("the loop returned")
