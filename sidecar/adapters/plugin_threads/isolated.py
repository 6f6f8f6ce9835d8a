"""Wraps objects of installed plugins. The wrapper has the interface of the object and calls it in a thread of its own.

The wrappers set no time limits. Their callers do, and also limit the number of abandoned calls: `PluginCalls`,
`GuardedGate`, `BoundedSink`, `Attempt`.

Objects of built-in plugins are not wrapped: they do not block, and share connections and stores with the rest of the
process.
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
"""Maximum time for a factory, in seconds. The start of the sidecar waits for it."""
EDIT_SECONDS: Final = 0.05
"""Maximum time for `edit_for`, in seconds. The event loop waits meanwhile, so the plugin must answer from memory."""


class _Isolated(Generic[Made]):
    """An object in a thread.

    Args:
        thread: the thread, which ends when the object is closed.
        made: the object. Only code in the thread may use it.
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
        """Wait until the flags may have changed."""
        await self._thread.call(lambda: self._made.changed())  # noqa: PLW0108  the same reason


class _Named(IsolatedFlags):
    """A flag backend that cannot list its flags."""

    _names: frozenset[str] = frozenset()

    def set_names(self, names: frozenset[str]) -> None:
        """Store the names. The next fetch passes them to the plugin, in the thread."""
        self._names = names

    async def fetch(self) -> FlagReport:
        """Fetch the flags whose names were stored last."""

        async def set_and_fetch(names: frozenset[str]) -> FlagReport:
            self._made.set_names(names)
            report: FlagReport = await self._made.fetch()
            return report

        # Read on the event loop, because `set_names` may be called again before the thread begins this fetch.
        names = self._names
        return await self._thread.call(lambda: set_and_fetch(names))


class _Switching(IsolatedFlags):
    """A flag backend that switches flags."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch a flag."""
        await self._thread.call(lambda: self._made.switch(name, on, by))

    def edit_for(self, name: str, on: bool) -> str:
        """Return what a person must edit. Raises `TimeoutError` if the thread is blocked."""
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
    """Create the object of a plugin in a thread, and return a wrapper with the same interface.

    A lifecycle policy is returned without a wrapper, because `PolicyThreads` calls every policy in a thread.

    Args:
        spec: the descriptor of the plugin.
        make: creates the object.
        thread: the thread in which the object is created and called.

    Raises:
        PluginProblem: the factory does not return. Exceptions of `make` are raised unchanged.
    """
    try:
        made = thread.now(make, MAKE_SECONDS)
    except TimeoutError:
        thread.leave()
        # The factory may still run: a blocked thread cannot be stopped. `leave` ends the thread when it returns.
        raise PluginProblem(
            f"its factory has not returned within {MAKE_SECONDS:g} s",
            where=f"{spec.kind} `{spec.name}`, settings in [{section_of(spec)}]",
            remedy="have the factory return at once, and connect at the first call",
        ) from None
    except BaseException:
        # Without an object, the thread would run idle until the process ends.
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
            # A lifecycle policy needed the thread only for its factory.
            thread.leave()
            return made


def _flags(made: object) -> type[IsolatedFlags]:
    """Return the wrapper class with exactly the optional methods of the flag backend: callers check for them."""
    # Only the presence of methods is checked, so this may run outside of the plugin's thread.
    if isinstance(made, NamedFlagBackend):
        return _NamedSwitching if isinstance(made, FlagWriter) else _Named
    return _Switching if isinstance(made, FlagWriter) else IsolatedFlags
