"""Every kind of plugin by everything that one can do instead of answering: its own failure, in time, and nothing more.

An exit or an interrupt that gets out of a task would end the process; a stray cancellation would look as if a client
had left; a call that ignores its cancellation would hold up whatever waits for it.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, cast

import pytest

from sidecar.adapters.flags_memory import MemoryFlags
from sidecar.adapters.step_checks import GuardedGate, PolicyThreads
from sidecar.adapters.system import OwnedTasks, closed
from sidecar.core.definitions.cards.card import Limits
from sidecar.core.errors import MemoryUnavailable, StoreUnavailable
from sidecar.core.flag_states import FlagRoutes, FlagValue
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import EpisodeId, InstanceId, Principal, ToolId, Vertical
from sidecar.observability.audit.boundary import BoundedSink
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper, FlagTiming
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.plugin_calls import MOST_LEFT_BEHIND, PluginCalls, PluginFailed, PluginHung, PluginLate
from sidecar.operations.rollout.audit.sink_export import SinkExport
from sidecar.operations.rollout.flags.external_flags import FlagsOfPlugin
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules
from sidecar.operations.rollout.steps.policy_checks import policy_answers
from sidecar.operations.turn.child.connector_boundary import ConnectorBoundary
from sidecar.policy.protocols import EnricherCall, EnricherRefused, RunnerEvent, RunRequest
from sidecar_conformance.policy_bench import changed
from tests.support.builders import a_card
from tests.support.harness import KeepingRecorder, running_sidecar_for_tests
from tests.support.plugin_calls import plugin_calls
from tests.unit.flags.virtual_time import LoopClock
from tests.unit.rollout.building import facts
from tests.unit.rollout.test_audit_loops import Exporting
from tests.unit.rollout.test_gatekeeping import QUESTION, Clock, Told

SOON: Final = timedelta(milliseconds=40)
LIMIT: Final = SOON.total_seconds()
"""Of each call; a test ends by its own limit if one is not kept."""
KEY: Final = EpisodeKey(EpisodeId("e-1"), Principal("user-1"))

RAISED: Final[Mapping[str, BaseException]] = {
    type(error).__name__: error
    for error in (
        *(KeyboardInterrupt(), SystemExit("no licence"), GeneratorExit(), asyncio.CancelledError()),
        *(TimeoutError(), MemoryError(), RecursionError(), StopAsyncIteration(), ValueError("x")),
    )
}
HANGS: Final = "hangs"
CLINGS: Final = "hangs and ignores that it is cancelled"
WRONG: Final = "returns something else"
BEHAVIOURS: Final = (*RAISED, HANGS, CLINGS, WRONG)


class Odd:
    """A plugin that misbehaves in every method.

    Attributes:
        behaviour: what it does.
        released: set when a test is over, so that nothing clings longer.
    """

    def __init__(self, behaviour: str, rounds: int = 40) -> None:
        """Begin; it clings for so many quarters of the limit at most, because the loop of a test waits for it."""
        self._rounds = rounds
        self.released = threading.Event()
        self.behaviour = behaviour

    async def does(self, *given: Any) -> Any:
        """Misbehave."""
        if self.behaviour in RAISED:
            raise RAISED[self.behaviour]
        for _ in range(self._rounds if self.behaviour == CLINGS else 0):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(LIMIT / 4)
            if self.released.is_set():
                break
        if self.behaviour == HANGS:
            await asyncio.Event().wait()
        return object()

    def check(self, asked: Any) -> Any:
        """Misbehave as a lifecycle policy, in a thread."""
        if self.behaviour in RAISED:
            raise RAISED[self.behaviour]
        if self.behaviour in {HANGS, CLINGS}:
            self.released.wait(20)
        return object()

    def edit_for(self, name: str, on: bool) -> Any:
        """Misbehave, without waiting."""
        return self.check(None) if self.behaviour in RAISED else object()

    fetch = changed = switch = ask = take = size = enrich = close = does


@pytest.fixture(params=BEHAVIOURS)
def odd(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A plugin of each behaviour."""
    plugin = Odd(request.param)
    yield plugin
    plugin.released.set()


def flags_of(backend: Any) -> FlagSnapshotKeeper:
    """Return what keeps the flags of one backend."""
    timing = FlagTiming(SOON, SOON, SOON / 4, SOON * 10)
    return FlagSnapshotKeeper({"odd": backend}, FlagRoutes("odd"), LoopClock(), timing, lambda _: None, plugin_calls())


async def test_a_flag_backend_is_out_of_contact(odd: Any) -> None:
    """Its flags read as unreachable, and health says why."""
    flags = flags_of(odd)
    await flags.refresh_all()
    assert flags.current().value("f") is FlagValue.UNREACHABLE
    assert flags.failures()["odd"]


async def test_the_hints_of_a_flag_backend_are_done_without(odd: Any) -> None:
    """It is asked at its interval, as one that gives none; the loop goes on."""
    backend = MemoryFlags({"f"})
    backend.changed = odd.does  # type: ignore[method-assign]  # the mistake
    flags = flags_of(backend)
    loop = asyncio.ensure_future(flags.run())
    await asyncio.sleep(4 * LIMIT)
    assert not loop.done()
    assert flags.current().value("f") is FlagValue.ON
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_a_flag_is_not_switched(odd: Any) -> None:
    """A kill goes on without it; what a person has to change is said in words of our own."""
    flags = FlagsOfPlugin("mine", odd, plugin_calls(), LIMIT)
    if odd.behaviour != WRONG:  # a switch returns nothing that could be wrong
        with pytest.raises(StoreUnavailable, match="`mine` did not switch the flag f"):
            await flags.switch("f", False, "ada")
    assert flags.edit_for("f", False) == "mine: switch f off"


async def test_a_gate_does_not_pass(odd: Any) -> None:
    """The step is held, and no gate counts as failed."""
    told, guarded = Told(), GuardedGate("odd", odd)
    evaluator = GateEvaluator(GateRules(SOON), lambda vertical, gate: guarded, Clock(), told)
    (result,) = await evaluator.ask_all(QUESTION, ("pre_ramp",), Vertical("shop"), facts("shop"))
    assert (result.verdict, result.passed, told.failed) == ("unavailable", False, [])
    assert len(told.anomalies) == 1


async def test_a_policy_denies(odd: Any) -> None:
    """With the name of the policy, and what it did."""
    told, threads = Told(), PolicyThreads(SOON)
    answers = await policy_answers([("mine", odd)], changed(), threads.ask, told.anomaly)
    assert answers["mine"].denied.startswith("policy mine ")
    assert told.anomalies[0][0] == "policy_broken"


async def test_an_audit_sink_keeps_its_rows(odd: Any) -> None:
    """They are handed on again; what it takes without an error counts as taken, whatever it returns."""
    recorder, rows = KeepingRecorder(), Exporting()
    await rows.happens("r-1")
    export = SinkExport(
        name="mine",
        sink=BoundedSink("mine", odd),
        store=rows.store,
        instance=InstanceId("a"),
        clock=LoopClock(),
        recorder=cast("Any", recorder),
        taken={"mine": set()},
        longest_take=LIMIT,
    )
    await export.look()
    fails = odd.behaviour != WRONG
    assert bool(recorder.of("anomaly")) is fails
    assert export.handed_on == (0 if fails else 1)


async def test_an_episode_memory_is_away(odd: Any) -> None:
    """As with any other failure of a memory."""
    memory = BoundedMemory(odd, KeepingRecorder(), SOON, plugin_calls())
    with pytest.raises(MemoryUnavailable):
        await memory.size(KEY)


async def test_a_connector_brings_no_data(odd: Any) -> None:
    """The sub-agent hears that there is none."""

    class OneConnector:
        def connector_for(self, card: Any, tool_id: str) -> Any:
            return odd

    tasks, recorder = OwnedTasks(lambda name, error: None), KeepingRecorder()
    border = ConnectorBoundary(OneConnector(), spawner=tasks, recorder=recorder, report_after=1.0)
    call = EnricherCall(ToolId("offers"), "http://x", "Offers", "e", Principal("user-1"), "{}", None, SOON)
    assert isinstance(await border.ask(a_card("shop"), call), EnricherRefused)


async def test_a_runner_fails_its_call(odd: Any) -> None:
    """One outcome, and another sub-agent is served at the same time."""

    async def script(request: RunRequest, runner: Any) -> AsyncIterator[RunnerEvent]:
        yield await odd.does()

    cards = [a_card("shop", limits=Limits(attempt_timeout=SOON * 5)), a_card("rewards")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:
        sidecar.runner.use("shop", cast("Any", script))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop", "ask_rewards")
        assert reply.outcomes == ["FAILED", "SUCCEEDED"]
        odd.released.set()


async def test_what_is_closed_at_a_stop_is_left_behind(odd: Any) -> None:
    """The stop goes on, whatever the object does."""
    async with asyncio.timeout(5):
        await closed(odd.close, LIMIT)


async def test_calls_that_run_on_are_limited_and_reported() -> None:
    """After 16 of them the plugin is not asked any more, until they have ended; another plugin is."""
    told: list[tuple[str, int]] = []
    reported = asyncio.Event()

    def hung(plugin: str, count: int) -> None:
        told.append((plugin, count))
        reported.set()

    calls, odd = PluginCalls(OwnedTasks(lambda name, error: None), hung, report_after=0.0), Odd(CLINGS, rounds=1000)
    for _ in range(MOST_LEFT_BEHIND):
        with pytest.raises(PluginLate):
            await calls.ask("odd", 0.001, odd.does)
    with pytest.raises(PluginHung):
        await calls.ask("odd", 1.0, odd.does)
    assert await calls.ask("other", 1.0, Odd(WRONG).does)
    async with asyncio.timeout(5):
        await reported.wait()
    assert told[0][0] == "odd"

    odd.released.set()
    await until(lambda: not calls.left_behind)
    assert await calls.ask("odd", 1.0, odd.does)


async def test_a_caller_that_leaves_cancels_the_call() -> None:
    """The caller's own cancellation is no failure of the plugin."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(plugin_calls().ask("odd", 10.0, work))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        await ended.wait()


async def test_what_a_plugin_raised_is_kept_for_its_border_only() -> None:
    """The message has the type and not the text, which may hold anything."""

    async def work() -> None:
        raise ValueError("secret")

    with pytest.raises(PluginFailed, match=r"^ValueError$") as failed:
        await plugin_calls().ask("odd", 1.0, work)
    assert isinstance(failed.value.error, ValueError)


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is true, for a while."""
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(LIMIT / 40)
    raise AssertionError("it did not become true")
