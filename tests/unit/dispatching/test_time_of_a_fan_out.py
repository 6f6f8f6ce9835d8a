"""How long a fan-out takes, in virtual time: as long as its slowest sub-agent, and not a moment more."""

import asyncio
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import pytest

from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.store_memory import MemoryStore
from sidecar.adapters.system import OwnedTasks, SystemIds
from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.frames import DispatchResult
from sidecar.core.identifiers import CallId, DispatchId, EpisodeId, Principal, TurnId
from sidecar.core.status_events.policy import Vocabulary
from sidecar.operations.assembly import Operations, Ports, assemble
from sidecar.operations.requests import BindTurnRequest, DispatchRequest, JoinPolicy, TurnSource
from sidecar.operations.rules import DispatchRules
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest
from tests.support.builders import a_card, a_catalogue
from tests.support.fake_runner import Script, ScriptedConnector, ScriptedRunner
from tests.support.harness import KeepingRecorder, OneRunner, ScriptedDefinitions, ScriptedFlags
from tests.support.requirement import requirement
from tests.unit.flags.virtual_time import LoopClock, in_virtual_time

SLOTS = ("shop", "rewards", "support")


def thinks_for(seconds: float) -> Script:
    """Answer after a while."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await asyncio.sleep(seconds)
        yield NarrationPart("done")
        yield RunFinished()

    return script


def operations(runner: ScriptedRunner) -> Operations:
    """Join the real operations to a clock that jumps."""
    flags: Any = ScriptedFlags()
    ports = Ports(
        clock=LoopClock(),
        ids=SystemIds(),
        chance=Random("jitter"),
        spawner=OwnedTasks(lambda name, error: None),
        store=MemoryStore(),
        recorder=KeepingRecorder(),
        definitions=ScriptedDefinitions(a_catalogue(*(a_card(slot) for slot in SLOTS))),
        flags=flags,
        runners=OneRunner(runner),
        connectors=ScriptedConnector(),
        memory=InProcessMemory(),
    )
    rules = DispatchRules(BindingRules(fan_out_cap=3, max_dispatches=4), Vocabulary({}))
    return assemble(rules, SigningKeys({"k1": b"k" * 32}, "k1"), ports)


async def dispatched(times: dict[str, float], join: JoinPolicy) -> tuple[float, DispatchResult]:
    """Dispatch one call to each sub-agent; return what it took on the loop's clock, and the result."""
    runner = ScriptedRunner({slot: thinks_for(seconds) for slot, seconds in times.items()})
    sidecar = operations(runner)
    bound = await sidecar.bind_turn(
        BindTurnRequest(TurnId("turn-1"), EpisodeId("episode-1"), Principal("user-1"), TurnSource.CHAT)
    )
    calls = tuple(ToolCall(CallId(slot), f"ask_{slot}", '{"request": "x"}') for slot in times)
    request = DispatchRequest(bound.surface_token, bound.surface.binding_digest, DispatchId("d-1"), calls, join=join)
    began = asyncio.get_running_loop().time()
    begun = await sidecar.dispatch_calls.begin(request, None)
    result = await begun.dispatch.finished.wait()
    return asyncio.get_running_loop().time() - began, result


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
