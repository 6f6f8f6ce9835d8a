"""Owns every task that outlives its caller, and runs long computations outside the event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from sidecar.adapters.switch_interval import SHORT_SWITCH_INTERVAL

Result = TypeVar("Result")
CLOSE_SECONDS: Final = 2.0
"""Seconds that a plugin's object gets to close."""


class OffLoop:
    """Runs computations one after the other in one thread; the interpreter shares its time between thread and loop.

    More threads would not be faster, because they share one interpreter, and would leave less of it to the loop.
    """

    def __init__(self) -> None:
        """Begin without a thread; the first computation starts it."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="off-loop")

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, or raise its exception. It must not use objects that the event loop changes."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _run_sharing_time, work)

    def close(self) -> None:
        """Start no further computation."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _run_sharing_time(work: Callable[[], Result]) -> Result:
    """Run the computation so that the event loop never waits long for the interpreter."""
    with SHORT_SWITCH_INTERVAL:
        return work()


class OwnedTasks:
    """Holds a reference to each task until it ends, handles its exceptions, and waits for all tasks at the end.

    Args:
        on_stray: receives the name and the exception of a task; must not raise.
    """

    def __init__(self, on_stray: Callable[[str, BaseException], None]) -> None:
        self._on_stray = on_stray
        self._tasks: dict[asyncio.Task[None], Coroutine[Any, Any, None]] = {}

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work`; an exception is reported, and affects no other task."""
        task = asyncio.get_running_loop().create_task(self._run_guarded(work, name), name=name)
        # The event loop holds only weak references to tasks. Without this one, a task could be collected while it
        # waits.
        self._tasks[task] = work
        task.add_done_callback(self._tasks.pop)
        return task

    async def _run_guarded(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Catch even a plugin's `SystemExit`: a task that raises it would end the event loop."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  boundary: an unhandled exception ends only this task
            self._on_stray(name, error)

    async def ended(self, within: float) -> bool:
        """Wait for all tasks, at most `within` seconds; return whether they have ended."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=within)
        return not self._tasks

    async def close(self, within: float = 1.0) -> None:
        """Cancel running tasks and wait for them; a task that does not end is reported and abandoned."""
        # A copy: each ended task removes itself.
        stopped = dict(self._tasks)
        for task in stopped:
            # All at once and then one wait: one after the other, each slow task would add its own time.
            task.cancel("the sidecar is stopping")
        if not await self.ended(within):
            for task in list(self._tasks):
                self._on_stray(task.get_name(), TimeoutError("it runs on although it was told to stop"))
        for task, work in stopped.items():
            if task.done():
                work.close()  # a task that was cancelled before its first step has not awaited its work


async def closed(close: Callable[[], Awaitable[None]], seconds: float = CLOSE_SECONDS) -> None:
    """Close a plugin's object, within a time limit; errors are ignored."""

    async def contained() -> None:
        with suppress(BaseException):  # SystemExit in a task would end the process in the middle of its shutdown
            await close()

    task = asyncio.get_running_loop().create_task(contained())
    # `wait` and not `wait_for`: the latter would wait for a task that ignores its cancellation.
    await asyncio.wait((task,), timeout=seconds)
    task.cancel()
