"""Owns every task that outlives its caller, and runs long computations outside the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


class OffLoop:
    """Runs computations one after the other in one thread; the interpreter shares its time between thread and loop.

    More threads would not be faster, because they share one interpreter, and would leave less of it to the loop.
    """

    def __init__(self) -> None:
        """Begin without a thread; the first computation starts it."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="off-loop")

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, or raise its exception. It must not use anything that the loop changes."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Begin no other computation."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class OwnedTasks:
    """Holds a reference to each task until it ends, handles its exceptions, and waits for all tasks at the end.

    Args:
        on_stray: told the name of a task and what it raised; must not raise itself.
    """

    def __init__(self, on_stray: Callable[[str, BaseException], None]) -> None:
        self._on_stray = on_stray
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many run."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work`; an exception is reported, and affects no other task."""
        task = asyncio.get_running_loop().create_task(self._guarded(work, name), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Keep even a plugin's `SystemExit` from ending the loop, as a task that raises it would."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  the border: what strays out of a task ends that task only
            self._on_stray(name, error)

    async def ended(self, within: float) -> bool:
        """Wait for all tasks, at most `within` seconds; return whether they have ended."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=within)
        return not self._tasks

    async def close(self, within: float = 1.0) -> None:
        """Cancel what still runs and wait for it; a task that will not end is reported and left behind."""
        for task in list(self._tasks):
            task.cancel("the sidecar is stopping")
        if not await self.ended(within):
            for task in list(self._tasks):
                self._on_stray(task.get_name(), TimeoutError("it runs on although it was told to stop"))
