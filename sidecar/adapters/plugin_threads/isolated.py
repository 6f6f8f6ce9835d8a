"""Objects of installed plugins, each in a thread of its own, with the interface of its kind.

Whoever calls such an object is on the sidecar's event loop and does not notice the thread. The limits of time, and the
number of abandoned calls, are those of the callers: `PluginCalls`, `GuardedGate`, `BoundedSink`, `Attempt`.

Objects of the sidecar's own plugins stay on the event loop. They do not block, and share connections and stores with
the rest of the process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from sidecar.adapters.plugin_threads.thread import PluginThread
from sidecar.core.faults import Fault
from sidecar.core.flag_states import FlagReport
from sidecar.core.history.records import EpisodeContents, EpisodeKey, EpisodeSize, OwnTurn, Summary, TurnHistory
from sidecar.core.identifiers import Principal, Slot
from sidecar.policy.audit import AuditEntry, AuditSink
from sidecar.policy.factory import section_of
from sidecar.policy.flags import FlagWriter, NamedFlagBackend
from sidecar.policy.kinds import PluginKind
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion
from sidecar.policy.memory import UserEraser
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
from sidecar.policy.specs import PluginSpec

Made = TypeVar("Made")
MAKE_SECONDS: Final = 30.0
"""The longest time for a factory. The start waits for it, and serves nobody yet."""
EDIT_SECONDS: Final = 0.05
"""The longest time for `edit_for`, which the event loop waits for; it answers from memory."""
EVENTS_AHEAD: Final = 16
"""Events of a runner that may wait in the event loop until they are read."""


class _Isolated(Generic[Made]):
    """An object in a thread.

    Args:
        thread: ends when the object is closed.
        made: the object; only the thread may use it.
    """

    def __init__(self, thread: PluginThread, made: Made) -> None:
        self._thread = thread
        self._made = made

    async def close(self) -> None:
        """Close the object and end its thread."""
        await _closed(self._thread, lambda: self._made)


class IsolatedFlags(_Isolated[Any]):
    """A flag backend."""

    async def fetch(self) -> FlagReport:
        """Fetch."""
        return await self._thread.call(lambda: self._made.fetch())  # noqa: PLW0108  the attribute is read in the thread

    async def changed(self) -> None:
        """Wait for a hint."""
        await self._thread.call(lambda: self._made.changed())  # noqa: PLW0108  the same reason


class _Named(IsolatedFlags):
    """A flag backend that cannot list its flags."""

    _names: frozenset[str] = frozenset()

    def set_names(self, names: frozenset[str]) -> None:
        """Keep the names for the next fetch, which passes them on in the thread."""
        self._names = names

    async def fetch(self) -> FlagReport:
        """Fetch."""

        async def fetched(names: frozenset[str]) -> FlagReport:
            self._made.set_names(names)
            report: FlagReport = await self._made.fetch()
            return report

        names = self._names
        return await self._thread.call(lambda: fetched(names))


class _Switching(IsolatedFlags):
    """A flag backend that switches flags."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag."""
        await self._thread.call(lambda: self._made.switch(name, on, by))

    def edit_for(self, name: str, on: bool) -> str:
        """Return what a person has to change. Raises `TimeoutError` if the thread is blocked."""
        edit: str = self._thread.now(lambda: self._made.edit_for(name, on), EDIT_SECONDS)
        return edit


class _NamedSwitching(_Named, _Switching):
    """A flag backend with both abilities."""


class IsolatedGate(_Isolated[GateClient]):
    """A gate client."""

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Ask."""
        return await self._thread.call(lambda: self._made.ask(question))


class IsolatedSink(_Isolated[AuditSink]):
    """An audit sink."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Pass entries to the sink."""
        await self._thread.call(lambda: self._made.take(entries))


class IsolatedMemory(_Isolated[Any]):
    """An episode memory."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Keep a turn."""
        return await self._thread.call(lambda: self._made.append(turn))

    async def read(self, episode: EpisodeKey, most_turns: int) -> EpisodeContents:
        """Read an episode."""
        return await self._thread.call(lambda: self._made.read(episode, most_turns))

    async def own_turns(self, episode: EpisodeKey, slot: Slot, most: int) -> Sequence[OwnTurn]:
        """Read the answers of one sub-agent."""
        return await self._thread.call(lambda: self._made.own_turns(episode, slot, most))

    async def size(self, episode: EpisodeKey) -> EpisodeSize:
        """Read the size."""
        return await self._thread.call(lambda: self._made.size(episode))

    async def write_summary(self, episode: EpisodeKey, summary: Summary) -> EpisodeSize:
        """Replace the summary."""
        return await self._thread.call(lambda: self._made.write_summary(episode, summary))


class _Erasing(IsolatedMemory):
    """An episode memory that erases users."""

    async def erase(self, principal: Principal) -> int:
        """Remove every episode of a user."""
        return await self._thread.call(lambda: self._made.erase(principal))


class _Later(Generic[Made]):
    """An object that is made in its thread without anybody waiting; turns are served meanwhile.

    Args:
        thread: makes and uses the object.
        make: makes it. What it raises is kept for the calls.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Made]) -> None:
        self._thread = thread
        self._make = make
        self._made: Made | None = None
        self._problem: PluginProblem | None = None
        thread.post(self._begin)

    async def close(self) -> None:
        """Close the object, if it was made, and end its thread."""
        await _closed(self._thread, lambda: self._made)

    def _begin(self) -> None:
        try:
            self._made = self._make()
        except PluginProblem as problem:
            self._problem = problem

    def _there(self) -> Made:
        """Return the object. Raises `PluginProblem`. Only for the thread, which has made it before any call."""
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
        target: that of the definition, or the runner's name: the runner is not asked, since it may block.
    """

    def __init__(self, thread: PluginThread, make: Callable[[], Runner], target: str) -> None:
        super().__init__(thread, make)
        self.target = target

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt: the thread reads the runner's events, and runs ahead of the reader by a few.

        Raises:
            RunnerError: as the runner's, or the runner could not be made.
        """
        here, events = asyncio.get_running_loop(), asyncio.Queue[RunnerEvent | None]()
        room = asyncio.Semaphore(EVENTS_AHEAD)

        async def read() -> None:
            stream = self._there().run(request)
            try:
                async for event in stream:
                    await room.acquire()
                    here.call_soon_threadsafe(events.put_nowait, event)
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()

        reading = asyncio.ensure_future(self._thread.call(read))
        reading.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
                self._thread.post(room.release)
            await reading
        except PluginProblem as problem:
            fault = Fault(self.target, self.target, remedy=problem.remedy)
            raise RunnerError(problem.what, unreachable=True, fault=fault) from None
        finally:
            reading.cancel()
            await asyncio.wait((reading,))  # whoever abandons the attempt sees that the runner still works
            if not reading.cancelled():
                reading.exception()  # marks it as retrieved: the attempt may have ended before


def isolated(spec: PluginSpec, make: Callable[[], Any], thread: PluginThread) -> Any:
    """Make an object of a plugin in a thread, and return one with the same interface that passes calls on.

    A lifecycle policy is returned as it is: `PolicyThreads` asks each in a thread anyway.

    Raises:
        PluginProblem: the factory does not return, or whatever `make` raises.
    """
    try:
        made = thread.now(make, MAKE_SECONDS)
    except TimeoutError:
        thread.leave()
        raise PluginProblem(
            f"its factory has not returned within {MAKE_SECONDS:g} s",
            where=f"{spec.kind} `{spec.name}`, settings in [{section_of(spec)}]",
            remedy="have the factory return at once, and connect at the first call",
        ) from None
    except BaseException:
        thread.leave()
        raise
    match spec.kind:
        case PluginKind.FLAG_BACKEND:
            return _flags(made)(thread, made)
        case PluginKind.GATE_CLIENT:
            return IsolatedGate(thread, made)
        case PluginKind.AUDIT_SINK:
            return IsolatedSink(thread, made)
        case PluginKind.EPISODE_MEMORY:
            return (_Erasing if isinstance(made, UserEraser) else IsolatedMemory)(thread, made)
        case _:
            thread.leave()
            return made


def _flags(made: object) -> type[IsolatedFlags]:
    if isinstance(made, NamedFlagBackend):
        return _NamedSwitching if isinstance(made, FlagWriter) else _Named
    return _Switching if isinstance(made, FlagWriter) else IsolatedFlags


async def _closed(thread: PluginThread, made: Callable[[], Any]) -> None:
    async def close() -> None:
        if (found := made()) is not None:
            await found.close()

    try:
        await thread.call(close)
    finally:
        thread.leave()
