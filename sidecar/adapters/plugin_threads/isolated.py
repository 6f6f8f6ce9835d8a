"""Wraps objects of installed plugins so that each runs in a thread of its own, with the interface of its kind.

A caller on the sidecar's event loop does not notice the thread. Time limits, and limits on abandoned calls, are set by
the callers: `PluginCalls`, `GuardedGate`, `BoundedSink`, `Attempt`.

Objects of the sidecar's own plugins stay on the event loop. They do not block, and share connections and stores with
the rest of the process.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from sidecar.adapters.plugin_threads.thread import PluginThread, closed_in
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
from sidecar.policy.specs import PluginSpec

Made = TypeVar("Made")
MAKE_SECONDS: Final = 30.0
"""The longest time in seconds for a factory. The start waits for it, and serves no user yet."""
EDIT_SECONDS: Final = 0.05
"""The longest time in seconds for `edit_for`. The event loop waits meanwhile, so it must answer from memory."""


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
        await closed_in(self._thread, lambda: self._made)


class IsolatedFlags(_Isolated[Any]):
    """A flag backend."""

    async def fetch(self) -> FlagReport:
        """Fetch the flags."""
        return await self._thread.call(lambda: self._made.fetch())  # noqa: PLW0108  the attribute is read in the thread

    async def changed(self) -> None:
        """Wait for a sign that the flags have changed."""
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

        # Read on the event loop: `set_names` may run again before the thread gets to this fetch.
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
        """Call the gate."""
        return await self._thread.call(lambda: self._made.ask(question))


class IsolatedSink(_Isolated[AuditSink]):
    """An audit sink."""

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Pass entries to the sink."""
        await self._thread.call(lambda: self._made.take(entries))


class IsolatedMemory(_Isolated[Any]):
    """An episode memory."""

    async def append(self, turn: TurnHistory) -> EpisodeSize:
        """Store a turn."""
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


def isolated(spec: PluginSpec, make: Callable[[], Any], thread: PluginThread) -> Any:
    """Make an object of a plugin in a thread, and return one with the same interface that passes calls on.

    A lifecycle policy is returned unchanged, because `PolicyThreads` calls every policy in a thread.

    Raises:
        PluginProblem: the factory does not return, or whatever `make` raises.
    """
    try:
        made = thread.now(make, MAKE_SECONDS)
    except TimeoutError:
        thread.leave()
        # The factory may still run. `leave` only lets the thread end; a blocked thread cannot be stopped.
        raise PluginProblem(
            f"its factory has not returned within {MAKE_SECONDS:g} s",
            where=f"{spec.kind} `{spec.name}`, settings in [{section_of(spec)}]",
            remedy="have the factory return at once, and connect at the first call",
        ) from None
    except BaseException:
        # Also for `KeyboardInterrupt`: without an object, the thread would run idle until the process ends.
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
        # Checked once, on the object itself. The wrapper must have exactly the object's optional methods: callers look
        # for them.
        return _NamedSwitching if isinstance(made, FlagWriter) else _Named
    return _Switching if isinstance(made, FlagWriter) else IsolatedFlags
