"""Runs jobs in order in one thread, and delivers their results on the event loop; for the connections of SQLite."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

from sidecar.core.errors import StoreUnavailable

Result = TypeVar("Result")

MOST_WAITING: Final = 1000
"""Maximum number of queued jobs. In a longer queue, callers would time out before their jobs begin."""


class Worker:
    """A daemon thread with a queue. A job completes even if its waiter is cancelled.

    Args:
        name: the name of the thread, which debuggers show.
    """

    def __init__(self, name: str) -> None:
        """Start the thread."""
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._stopped = False
        # A daemon, because Python waits for other threads at its exit, and a job may hang in a broken disk.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], object]) -> None:
        """Queue `work`, which must not raise, without waiting for it."""
        if not self._stopped:
            self._jobs.put(work)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the thread; return its result, or raise its exception.

        Raises:
            StoreUnavailable: the worker is stopped, or the queue is full.
        """
        if self._stopped or self._jobs.qsize() >= MOST_WAITING:
            raise StoreUnavailable("too much waits for the disk", retry_after=timedelta(seconds=1))
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()

        # The job settles the future on the loop's thread, because asyncio futures are not thread-safe. It runs to its
        # end even if the caller is cancelled: a half-done transaction would leave the connection in an unknown state.
        def job() -> None:
            settle: Callable[[], None]
            try:
                settle = partial(_succeed, answer, work())
            except BaseException as error:  # noqa: BLE001 - the error belongs to the caller; the thread must survive it
                settle = partial(_fail, answer, error)
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:
                return  # the loop is closed, so no caller waits for the result

        self._jobs.put(job)
        return await answer

    def stop(self) -> None:
        """End the thread after the queued jobs."""
        self._stopped = True
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            # Otherwise this variable would keep the data of the job in memory until the next job begins.
            del job


def _succeed(answer: "asyncio.Future[Result]", result: Result) -> None:
    if not answer.done():  # otherwise the caller was cancelled
        answer.set_result(result)


def _fail(answer: "asyncio.Future[Any]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
