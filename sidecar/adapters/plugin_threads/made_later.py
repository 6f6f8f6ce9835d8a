"""Wraps connectors and runners of installed plugins, which are created in their threads while turns are served.

The event loop does not wait for a factory. A call runs in the same thread after the factory, and fails if that failed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, TypeVar

from sidecar.adapters.plugin_threads.thread import PluginThread, closed_in
from sidecar.core.faults import Fault
from sidecar.policy.problems import PluginProblem
from sidecar.policy.protocols import (
    Connector,
    EnricherCall,
    EnricherRefused,
    EnricherReply,
    RefusalKind,
    Runner,
    RunnerError,
    RunnerEvent,
    RunRequest,
)

Made = TypeVar("Made")
EVENTS_AHEAD: Final = 16
"""Maximum number of events of a runner that wait for their reader. A runner that is faster must wait."""


class _Later(Generic[Made]):
    """An object that is created in its thread, without the constructor waiting for it.

    Args:
        thread: the thread that creates and uses the object.
        make: creates the object. If it raises `PluginProblem`, each call of the object fails with this error.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Made]) -> None:
        self._thread = thread
        self._make = make
        self._made: Made | None = None
        self._problem: PluginProblem | None = None
        # Posted before any call can be, so the thread creates the object before it runs the first call.
        thread.post(self._begin)

    async def close(self) -> None:
        """Close the object, if it was created, and end its thread."""
        await closed_in(self._thread, lambda: self._made)

    def _begin(self) -> None:
        try:
            self._made = self._make()
        except PluginProblem as problem:
            self._problem = problem

    def _created(self) -> Made:
        """Return the object; only the thread may call this. Raises `PluginProblem`."""
        if self._made is None:
            raise self._problem or PluginProblem("it is not made", where=self._thread.name, remedy="look into the log")
        return self._made


class IsolatedConnector(_Later[Connector]):
    """A connector.

    Attributes:
        needs_user_token: whether it needs the tokens of users, from the descriptor.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Connector], *, needs_user_token: bool) -> None:
        super().__init__(thread, make)
        self.needs_user_token = needs_user_token

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send one request."""
        try:
            return await self._thread.call(lambda: self._created().enrich(call))
        except PluginProblem as problem:
            return EnricherRefused(RefusalKind.UNAVAILABLE, Fault("", remedy=problem.remedy))


class IsolatedRunner(_Later[Runner]):
    """A runner.

    Attributes:
        target: the target of the definition, or the runner's name. The runner's own `target` is not read, because it
            may block.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Runner], target: str) -> None:
        super().__init__(thread, make)
        self.target = target

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt, and yield its events.

        The thread reads the events of the runner, up to `EVENTS_AHEAD` events ahead of the caller.

        Raises:
            RunnerError: the runner raised it, or could not be created.
        """
        caller_loop, events = asyncio.get_running_loop(), asyncio.Queue[RunnerEvent | None]()
        # Limits the queue, which cannot make the thread wait. Acquired and released only in the thread, because a
        # semaphore of asyncio is not safe for use in two threads.
        free_places = asyncio.Semaphore(EVENTS_AHEAD)

        async def read() -> None:
            stream = self._created().run(request)
            try:
                async for event in stream:
                    await free_places.acquire()
                    # The queue belongs to the caller's event loop, so it is filled there and not in this thread.
                    caller_loop.call_soon_threadsafe(events.put_nowait, event)
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()

        reading = asyncio.ensure_future(self._thread.call(read))
        # After every end, even an error or a cancellation. Otherwise the loop below would wait for ever.
        reading.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
                self._thread.post(free_places.release)
            # Raises the error of the runner, after all its events were yielded.
            await reading
        except PluginProblem as problem:
            fault = Fault(self.target, self.target, remedy=problem.remedy)
            raise RunnerError(problem.what, unreachable=True, fault=fault) from None
        finally:
            reading.cancel()
            # Waits, so that an abandoned attempt is counted until the runner has really ended.
            await asyncio.wait((reading,))
            if not reading.cancelled():
                reading.exception()  # marks the exception as retrieved: otherwise asyncio logs it
