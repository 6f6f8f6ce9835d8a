"""The objects of installed plugins, each in its thread: the same interface, and all that they may and may not do."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from sidecar.adapters.plugin_threads.isolated import isolated
from sidecar.adapters.plugin_threads.made_later import IsolatedConnector, IsolatedRunner
from sidecar.adapters.plugin_threads.thread import PluginThread
from sidecar.adapters.plugin_threads.threads import PluginThreads
from sidecar.policy.flags import FlagWriter, NamedFlagBackend
from sidecar.policy.loading import BUILT_IN, PluginHost, Registered
from sidecar.policy.memory import UserEraser
from sidecar.policy.problems import PluginProblem
from sidecar.policy.protocols import (
    EnricherCall,
    EnricherRefused,
    FlagReport,
    NarrationPart,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
)
from sidecar.policy.specs import EpisodeMemorySpec, FlagBackendSpec, PluginSpec
from tests.adapters.plugin_threads.conftest import Told

BROKEN = PluginProblem("making it failed", where="here", remedy="mend it")


def spec(of: type[PluginSpec], make: Any) -> Any:
    """Return a descriptor."""
    return of(name="mine", contract=f"{of.kind}/1", summary="x", factory=lambda settings: make())  # type: ignore[call-arg]  # every kind of descriptor has one


class Flags:
    """A flag backend with every ability; notes in which threads it is called."""

    def __init__(self) -> None:
        self.threads = {threading.get_ident()}
        self.names: frozenset[str] = frozenset()
        self.switched: list[tuple[str, bool, str]] = []

    async def fetch(self) -> FlagReport:
        """Return the names."""
        self.threads.add(threading.get_ident())
        return FlagReport(self.names, "1")

    async def changed(self) -> None:
        """Hint at once."""
        self.threads.add(threading.get_ident())

    def set_names(self, names: frozenset[str]) -> None:
        """Take them."""
        self.threads.add(threading.get_ident())
        self.names = names

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Note it."""
        self.threads.add(threading.get_ident())
        self.switched.append((name, on, by))

    def edit_for(self, name: str, on: bool) -> str:
        """Say it."""
        self.threads.add(threading.get_ident())
        return f"{name} {on}"

    async def close(self) -> None:
        """Note it."""
        self.threads.add(threading.get_ident())


async def test_a_flag_backend_is_made_and_called_in_one_thread_with_its_abilities(thread: PluginThread) -> None:
    """The factory too: what it makes belongs to the loop of that thread."""
    there: list[Flags] = []

    def make() -> Flags:
        there.append(Flags())
        return there[-1]

    backend = isolated(spec(FlagBackendSpec, make), make, thread)
    backend.set_names(frozenset({"f"}))
    assert (await backend.fetch()).on == {"f"}
    await backend.changed()
    await backend.switch("f", True, "ada")
    assert backend.edit_for("f", True) == "f True"
    thread.users += 1
    await backend.close()
    assert there[0].switched == [("f", True, "ada")]
    assert there[0].threads == {thread.now(threading.get_ident, 5)}
    assert isinstance(backend, NamedFlagBackend)
    assert isinstance(backend, FlagWriter)


async def test_only_objects_of_installed_plugins_leave_the_event_loop() -> None:
    """The sidecar's own do not block, and share connections with the rest of the process."""
    made: Any = spec(FlagBackendSpec, Flags)
    key = (made.kind, made.name)

    def threads_of(distribution: str) -> PluginThreads:
        host = PluginHost({key: Registered(made, distribution, "1", "here")})
        return PluginThreads(host, Told().anomaly)

    own: object = threads_of(BUILT_IN).made(made, Flags)
    installed: Any = threads_of("flags-of-theirs").made(made, Flags)
    assert isinstance(own, Flags)
    assert not isinstance(installed, Flags)
    await installed.close()


def test_an_object_without_an_ability_does_not_get_it(thread: PluginThread) -> None:
    """A read-only backend is not switched; a memory that cannot erase says so."""

    class Plain:
        async def close(self) -> None:
            """Do nothing."""

    backend = isolated(spec(FlagBackendSpec, Plain), Plain, thread)
    memory = isolated(spec(EpisodeMemorySpec, Plain), Plain, thread)
    assert not isinstance(backend, NamedFlagBackend | FlagWriter)
    assert not isinstance(memory, UserEraser)


class Runs:
    """Yields so many events; notes how far it came, and whether it was closed."""

    target = "t"

    def __init__(self, events: int = 3, error: BaseException | None = None) -> None:
        self.yielded = 0
        self.left = threading.Event()
        self._events = events
        self._error = error

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Yield them."""
        try:
            for number in range(self._events):
                self.yielded += 1
                yield NarrationPart(str(number))
            if self._error is not None:
                raise self._error
            yield RunFinished()
        finally:
            self.left.set()

    async def close(self) -> None:
        """Do nothing."""


NO_REQUEST = cast("RunRequest", None)


async def test_events_of_a_runner_arrive_in_order_and_its_error_after_them(thread: PluginThread) -> None:
    """Evidence before an error is kept."""
    runner = IsolatedRunner(thread, lambda: Runs(3, RunnerError("no", transient=True)), "t")
    seen: list[RunnerEvent] = []

    async def read() -> None:
        async for event in runner.run(NO_REQUEST):
            seen.append(event)  # noqa: PERF401  an error must not lose what came before it

    with pytest.raises(RunnerError, match="no") as failed:
        await read()
    assert seen == [NarrationPart("0"), NarrationPart("1"), NarrationPart("2")]
    assert failed.value.transient


async def test_a_runner_that_floods_waits_until_its_events_are_read(thread: PluginThread) -> None:
    """Memory is bounded; when the reader leaves, the runner is closed."""
    runs = Runs(1_000_000)
    events = IsolatedRunner(thread, lambda: runs, "t").run(NO_REQUEST)
    assert await anext(events) == NarrationPart("0")
    await asyncio.to_thread(thread.now, lambda: None, 5)
    await cast("Any", events).aclose()
    assert runs.left.is_set()
    assert runs.yielded < 100


async def test_a_runner_and_a_connector_that_cannot_be_made_fail_their_calls(thread: PluginThread) -> None:
    """Nobody has waited for the factory; the remedy is in the fault."""

    def broken() -> Any:
        raise BROKEN

    with pytest.raises(RunnerError, match="making it failed") as failed:
        await anext(aiter(IsolatedRunner(thread, broken, "unix:/host").run(NO_REQUEST)))
    assert (failed.value.unreachable, failed.value.fault and failed.value.fault.remedy) == (True, "mend it")
    connector = IsolatedConnector(thread, broken, needs_user_token=False)
    refused = await connector.enrich(cast("EnricherCall", None))
    assert isinstance(refused, EnricherRefused)
    assert refused.fault is not None
    assert refused.fault.remedy == "mend it"


async def test_a_thread_ends_with_its_last_object(told: Told) -> None:
    """Runners share one."""
    thread = PluginThread("runner mine", told.anomaly)
    thread.users = 2
    runners = [IsolatedRunner(thread, Runs, "t") for _ in range(2)]
    await runners[0].close()
    assert thread.now(lambda: "still here", 5) == "still here"
    await runners[1].close()
    await asyncio.to_thread(thread._thread.join, 20)
    assert not thread._thread.is_alive()
