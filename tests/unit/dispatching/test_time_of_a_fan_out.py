"""How long a fan-out takes, in virtual time: as long as its slowest sub-agent, and not a moment more."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.system import OwnedTasks, SystemIds
from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.frames import DispatchResult, Frame, StatusUpdate
from sidecar.core.identifiers import CallId, DispatchId, EpisodeId, Principal, TurnId
from sidecar.core.journal.entries import Draft
from sidecar.core.status_events.policy import EventRule, Vocabulary
from sidecar.operations.process.turn_assembly import Operations, Ports, assemble
from sidecar.operations.requests import BindTurnRequest, DispatchRequest, JoinPolicy, TurnSource
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.deliver_frames import deliver_frames
from sidecar.operations.turn.dispatch_calls import DispatchHandle
from sidecar.policy.protocols import (
    EnricherCall,
    EnricherReply,
    NarrationPart,
    RunFinished,
    RunnerEvent,
    RunRequest,
    StatusReported,
)
from tests.support.builders import a_catalogue
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import Script, ScriptedConnector, ScriptedRunner
from tests.support.harness import KeepingRecorder, OneRunner
from tests.support.requirement import requirement
from tests.support.scripted_configuration import ScriptedDefinitions, ScriptedFlags
from tests.unit.flags.virtual_time import LoopClock, in_virtual_time

SLOTS = ("shop", "rewards", "support")
TOGETHER = JoinPolicy()
REPORTED = Vocabulary({"searching_offers": EventRule()})


def thinks_for(seconds: float) -> Script:
    """Answer after a while."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await asyncio.sleep(seconds)
        yield NarrationPart("done")
        yield RunFinished()

    return script


class StoreThatTakes(MemoryStore):
    """Needs some seconds for each write: time of the sidecar's own."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    @override
    async def append(self, records: Sequence[Draft]) -> None:
        await asyncio.sleep(self._seconds)
        await super().append(records)


class DataServiceThatTakes(ScriptedConnector):
    """Needs some seconds for each answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(an_envelope)
        self._seconds = seconds

    @override
    async def enrich(self, call: EnricherCall) -> EnricherReply:
        await asyncio.sleep(self._seconds)
        return await super().enrich(call)


def operations(
    runner: ScriptedRunner,
    *,
    storing: float = 0.0,
    looking_up: float = 0.0,
    vocabulary: Vocabulary = REPORTED,
    recorder: KeepingRecorder | None = None,
    store: MemoryStore | None = None,
) -> Operations:
    """Join the real operations to a clock that jumps."""
    flags: Any = ScriptedFlags()
    definitions = ScriptedDefinitions(a_catalogue(*(a_card_with_tools(slot, "offers") for slot in SLOTS)))
    ports = Ports(
        clock=LoopClock(),
        ids=SystemIds(),
        chance=Random("jitter"),
        spawner=OwnedTasks(lambda name, error: None),
        store=store or StoreThatTakes(storing),
        recorder=recorder or KeepingRecorder(),
        definitions=definitions,
        flags=flags,
        runners=OneRunner(runner),
        connectors=DataServiceThatTakes(looking_up),
        memory=InProcessMemory(),
        rollouts=definitions.promoted,
    )
    rules = DispatchRules(BindingRules(fan_out_cap=3, max_dispatches=4), vocabulary)
    assembled = assemble(rules, SigningKeys({"k1": b"k" * 32}, "k1"), ports)
    runner.call_tool = assembled.call_tool
    return assembled


async def dispatched(times: dict[str, float], join: JoinPolicy) -> tuple[float, DispatchResult]:
    """Dispatch one call to each sub-agent; return what it took on the loop's clock, and the result."""
    runner = ScriptedRunner({slot: thinks_for(seconds) for slot, seconds in times.items()})
    began = asyncio.get_running_loop().time()
    begun = await begun_dispatch(operations(runner), *times, join=join)
    result = await begun.dispatch.finished.wait()
    return asyncio.get_running_loop().time() - began, result


async def begun_dispatch(sidecar: Operations, *slots: str, join: JoinPolicy = TOGETHER) -> DispatchHandle:
    """Bind a turn and begin a dispatch of one call to each sub-agent."""
    bound = await sidecar.bind_turn(
        BindTurnRequest(TurnId("turn-1"), EpisodeId("episode-1"), Principal("user-1"), TurnSource.CHAT)
    )
    calls = tuple(ToolCall(CallId(slot), f"ask_{slot}", '{"request": "x"}') for slot in slots)
    request = DispatchRequest(bound.surface_token, bound.surface.binding_digest, DispatchId("d-1"), calls, join=join)
    return await sidecar.dispatch_calls.begin(request, None)


@requirement("PC2-NFR-2", "PC2-D-3")
@pytest.mark.parametrize("times", [(3.0, 5.0, 9.0), (9.0, 5.0, 3.0), (4.0, 4.0, 4.0), (7.0,)])
def test_a_fan_out_takes_as_long_as_its_slowest_sub_agent(times: tuple[float, ...]) -> None:
    """Seconds of thinking: the longest is what it takes, to the last digit, and none of it counts as overhead."""
    took, result = in_virtual_time(dispatched(dict(zip(SLOTS, times, strict=False)), JoinPolicy()))

    assert took == max(times)
    assert [outcome.duration.total_seconds() for outcome in result.outcomes if outcome.duration] == list(times)
    assert result.overhead.total_seconds() == 0.0


def test_one_at_a_time_takes_the_sum() -> None:
    """The same three with `max_parallel` 1: so the test above can tell the two apart."""
    took, _ = in_virtual_time(dispatched(dict(zip(SLOTS, (3.0, 5.0, 9.0), strict=True)), JoinPolicy(max_parallel=1)))

    assert took == 17.0


def looks_up_and_thinks_for(seconds: float) -> Script:
    """Read data, report progress, think, answer."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.call_tool(request.grant, "offers", "{}")
        yield StatusReported("searching_offers")
        async for event in thinks_for(seconds)(request, runner):
            yield event

    return script


async def overhead_of(looking_up: float, thinking: float) -> float:
    """Dispatch one call with a store that takes a quarter of a second; return what counts as the sidecar's own."""
    runner = ScriptedRunner({"shop": looks_up_and_thinks_for(thinking)})
    begun = await begun_dispatch(operations(runner, storing=0.25, looking_up=looking_up), "shop")
    return (await begun.dispatch.finished.wait()).overhead.total_seconds()


@requirement("PC2-NFR-1a")
@pytest.mark.parametrize(("looking_up", "thinking"), [(0.0, 0.0), (0.0, 60.0), (20.0, 0.0), (20.0, 60.0)])
def test_overhead_is_the_sidecars_own_time_only(looking_up: float, thinking: float) -> None:
    """However long the data service or the sub-agent's model take: it is what storing took, and not more."""
    assert in_virtual_time(overhead_of(looking_up, thinking)) == 0.25


class Watch:
    """A listener that notes when each progress report arrives."""

    grace = timedelta(0)

    def __init__(self) -> None:
        self.seen_at: list[float] = []
        self.done_at = 0.0

    async def send(self, frame: Frame) -> None:
        """Look at one frame."""
        now = asyncio.get_running_loop().time()
        self.seen_at += [now for event in frame.events if isinstance(event.what, StatusUpdate)]
        self.done_at = now


@requirement("PC2-NFR-5")
def test_progress_of_a_long_operation_shows_long_before_its_answer() -> None:
    """A minute of thinking: what is reported after one second is seen within two, not with the answer."""
    watch = Watch()

    async def listened() -> None:
        runner = ScriptedRunner({slot: looks_up_and_thinks_for(60.0) for slot in SLOTS})
        begun = await begun_dispatch(operations(runner, looking_up=1.0), *SLOTS)
        await deliver_frames(begun, 0, watch)

    in_virtual_time(listened())

    assert (len(watch.seen_at), watch.done_at) == (3, 61.0)
    assert max(watch.seen_at) < 2.0
