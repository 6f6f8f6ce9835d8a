"""Creates connectors and runners of installed plugins in their threads, while turns are served.

No call waits for a factory: until the object exists, calls fail.
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
"""The most events of a runner that wait in the event loop. A runner that is faster than its reader must wait."""


class _Later(Generic[Made]):
    """An object that is created in its thread. No caller waits for its creation.

    Args:
        thread: creates and uses the object.
        make: creates the object. Each call raises the error of `make`, if there was one.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Made]) -> None:
        self._thread = thread
        self._make = make
        self._made: Made | None = None
        self._problem: PluginProblem | None = None
        thread.post(self._begin)

    async def close(self) -> None:
        """Close the object, if it was created, and end its thread."""
        await closed_in(self._thread, lambda: self._made)

    def _begin(self) -> None:
        try:
            self._made = self._make()
        except PluginProblem as problem:
            self._problem = problem

    def _there(self) -> Made:
        """Return the object; only the thread may call this. Raises `PluginProblem`."""
        if self._made is None:
            raise self._problem or PluginProblem("it is not made", where=self._thread.name, remedy="look into the log")
        return self._made


class IsolatedConnector(_Later[Connector]):
    """A connector.

    Attributes:
        needs_user_token: as the descriptor says.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Connector], *, needs_user_token: bool) -> None:
        super().__init__(thread, make)
        self.needs_user_token = needs_user_token

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Send one request."""
        try:
            return await self._thread.call(lambda: self._there().enrich(call))
        except PluginProblem as problem:
            return EnricherRefused(RefusalKind.UNAVAILABLE, Fault("", remedy=problem.remedy))


class IsolatedRunner(_Later[Runner]):
    """A runner.

    Attributes:
        target: the target of the definition, or the runner's name. The runner's own `target` is not read: it may block.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Runner], target: str) -> None:
        super().__init__(thread, make)
        self.target = target

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt: the thread reads the runner's events, and runs ahead of the reader by a few.

        Raises:
            RunnerError: the runner raised it, or could not be created.
        """
        here, events = asyncio.get_running_loop(), asyncio.Queue[RunnerEvent | None]()
        room = asyncio.Semaphore(EVENTS_AHEAD)

        async def read() -> None:
            stream = self._there().run(request)
            try:
                async for event in stream:
                    await room.acquire()
                    # The queue belongs to the loop of the caller; only this call may be made from another thread.
                    here.call_soon_threadsafe(events.put_nowait, event)
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()

        reading = asyncio.ensure_future(self._thread.call(read))
        # At every end, also after an error or a cancellation: otherwise the loop below would wait for ever.
        reading.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
                self._thread.post(room.release)
            # Raises the error of the runner, after all events that came before it.
            await reading
        except PluginProblem as problem:
            fault = Fault(self.target, self.target, remedy=problem.remedy)
            raise RunnerError(problem.what, unreachable=True, fault=fault) from None
        finally:
            reading.cancel()
            await asyncio.wait((reading,))  # so that an abandoned attempt counts until the runner has ended
            if not reading.cancelled():
                reading.exception()  # marks it as retrieved: the attempt may have ended before
