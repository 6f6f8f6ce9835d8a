"""Runs the objects of one plugin instance in a thread with an event loop of its own.

A call that blocks this thread delays only this instance, if it releases Python's interpreter lock. `time.sleep`, files
and sockets release it; Python code shares it; C code that keeps it stops every thread of the process.

A blocked thread cannot be ended. It is a daemon thread, so that the process can end nevertheless.
"""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from sidecar.adapters.switch_interval import SHORT_SWITCH_INTERVAL
from sidecar.operations.blocked_stack import holder_of
from sidecar.operations.first_result import FirstResult

Answer = TypeVar("Answer")
OnProblem = Callable[[str, str], None]
"""Receives a problem: the kind of anomaly, and the details."""

BLOCKED_AFTER: Final = 1.0
"""Seconds without a reaction to a cancellation after which a thread is reported as blocked."""
END_SECONDS: Final = 1.0
"""Seconds that the remaining tasks have to end when the thread is stopped."""


class PluginThread:
    """Runs coroutines and functions in a thread, for callers on the sidecar's event loop.

    Args:
        name: the kind and name of the plugin instance, for operators.
        on_problem: receives a report when the thread is blocked. Called on the caller's event loop.
        report_after: seconds without a reaction to a cancellation after which the thread is reported as blocked.

    Attributes:
        users: the number of objects in the thread, which ends when the last one has left.
    """

    def __init__(self, name: str, on_problem: OnProblem, report_after: float = BLOCKED_AFTER) -> None:
        self.name = name
        self.users = 0
        self._on_problem = on_problem
        self._report_after = report_after
        self._loop = asyncio.SelectorEventLoop()
        # The end of a call of `now` that was late. Until it is set, the thread is blocked.
        self._late: threading.Event | None = None
        # The call for which the thread was last reported as blocked.
        self._reported: _Call[Any] | None = None
        self._thread = threading.Thread(target=self._run, name=f"plugin {name}", daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run a coroutine in the thread. Return its result or raise its exception.

        If this call is cancelled, it cancels the coroutine and waits for its end. The caller can thereby detect that
        the plugin still works, and abandon the call. A second cancellation ends the wait.

        Args:
            work: returns the coroutine; called in the thread, with the context variables of this call.
        """
        call = _Call(self._loop, work)
        self._loop.call_soon_threadsafe(call.begin)
        try:
            end = await call.ending.wait()
        except asyncio.CancelledError:
            # The loop runs callbacks in their order, so the task exists when the cancellation arrives.
            self.post(call.cancel)
            timer = asyncio.get_running_loop().call_later(self._report_after, self._report_if_blocked, call)
            try:
                await call.ending.wait()
            finally:
                timer.cancel()
            # Even if the plugin has returned a result meanwhile: without its cancellation, the caller would continue.
            raise
        return end.result()

    def now(self, work: Callable[[], Answer], seconds: float) -> Answer:
        """Run a function in the thread while the calling thread waits. Return its result or raise its exception.

        Raises:
            TimeoutError: the function has not returned within `seconds`, or an earlier one still has not returned.
        """
        # A blocked thread is not tried again, because each try would block the caller's event loop.
        if self._late is not None and not self._late.is_set():
            raise TimeoutError(f"{self.name} has not returned from an earlier call")
        ended = threading.Event()
        ends: list[_End[Answer]] = []

        def run_and_note() -> None:
            try:
                ends.append(_End(work()))
            except BaseException as error:  # noqa: BLE001  boundary to a plugin; it is raised in the other thread
                ends.append(_End(None, error))
            ended.set()

        self._loop.call_soon_threadsafe(run_and_note)
        if not ended.wait(seconds):
            self._late = ended
            raise TimeoutError(f"{self.name} has not returned within {seconds:g} s")
        (end,) = ends
        return end.result()

    def post(self, callback: Callable[[], object]) -> None:
        """Call a function in the thread, without waiting for it, unless the thread has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def leave(self) -> None:
        """Note that an object has left the thread. After the last one the thread ends, when it is not blocked."""
        # Needs no lock: only the sidecar's event loop adds and removes users.
        self.users -= 1
        if self.users <= 0:
            self.post(self._loop.stop)

    def _report_if_blocked(self, call: "_Call[Any]") -> None:
        reported = self._reported
        # Only one report until the thread reacts again, because all waiting calls have the same cause.
        if call.heard or (reported is not None and not reported.heard):
            return
        self._reported = call
        frame = holder_of(sys._current_frames().get(self._thread.ident or 0), {}).frame  # noqa: SLF001  the documented way
        self._on_problem(
            "plugin_blocked", f"{self.name} blocks its thread at {frame}; until it returns, its calls fail and no other"
        )

    def _run(self) -> None:
        # Until the thread ends, not only during calls: a plugin may compute in tasks of its own.
        with SHORT_SWITCH_INTERVAL:
            self._serve()

    def _serve(self) -> None:
        while True:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001, S112  SystemExit in a plugin's task; its loop must continue
                continue
            break
        # No caller could handle an error here. Python would print it as an unhandled exception of the thread.
        with suppress(BaseException):
            self._end()

    def _end(self) -> None:
        remaining = asyncio.all_tasks(self._loop)
        # The plugin may have started tasks of its own. Python prints warnings if a loop closes with running tasks.
        for task in remaining:
            task.cancel()
        if remaining:
            self._loop.run_until_complete(asyncio.wait(remaining, timeout=END_SECONDS))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class _End(Struct, Generic[Answer], frozen=True):
    """The result or exception of a call. An exception is passed as a value, because some would end a task or loop."""

    answer: Any
    error: BaseException | None = None

    def result(self) -> Answer:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        answer: Answer = self.answer
        return answer


class _Call(Generic[Answer]):
    """One call. All methods except the constructor run in the thread of the plugin.

    Attributes:
        ending: the end of the call, which is set on the caller's event loop.
        heard: whether the thread has processed the cancellation. If so, it is not blocked.
    """

    def __init__(self, plugin_loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[Answer]]) -> None:
        self.ending: FirstResult[_End[Answer]] = FirstResult()
        self.heard = False
        self._caller_loop = asyncio.get_running_loop()
        self._plugin_loop = plugin_loop
        self._work = work
        self._task: asyncio.Task[_End[Answer]] | None = None

    def begin(self) -> None:
        self._task = self._plugin_loop.create_task(self._run_work())
        self._task.add_done_callback(self._report)

    def cancel(self) -> None:
        self.heard = True
        if self._task is not None:
            self._task.cancel()

    async def _run_work(self) -> _End[Answer]:
        try:
            return _End(await self._work())
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  boundary to a plugin: SystemExit would end the loop
            return _End(None, error)

    def _report(self, task: "asyncio.Task[_End[Answer]]") -> None:
        # A done callback and not a `finally` in the coroutine, which does not run if the task is cancelled before its
        # first step.
        end: _End[Answer] = _End(None, asyncio.CancelledError()) if task.cancelled() else task.result()
        with suppress(RuntimeError):  # the loop that asked is closed
            self._caller_loop.call_soon_threadsafe(self.ending.settle, end)


async def closed_in(thread: PluginThread, object_of: Callable[[], Any]) -> None:
    """Close an object in its thread, and end the thread after its last object.

    `object_of` returns the object; None: it was never created, so there is nothing to close.
    """

    async def close() -> None:
        if (closable := object_of()) is not None:
            await closable.close()

    try:
        await thread.call(close)
    finally:
        thread.leave()
