"""Long computations beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class OffLoop:
    """Runs computations one after the other in one thread; the interpreter shares its time between thread and loop.

    More threads would not be faster, because they share one interpreter, and would leave less of it to the loop.
    """

    def __init__(self) -> None:
        """Begin without a thread; the first computation starts it."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="off-loop")

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, or raise what it raises. It touches nothing that the loop changes meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Begin no other computation."""
        self._pool.shutdown(wait=False, cancel_futures=True)
