"""What the sidecar itself takes of a dispatch."""

from collections.abc import AsyncGenerator, Sequence

from typing_extensions import override

from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.system import SystemClock
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import DispatchOpened
from sidecar.policy.protocols import EnricherCall, EnricherReply, NarrationPart, RunFinished, RunnerEvent, RunRequest
from tests.support.data_tools import a_card_with_tools, an_envelope
from tests.support.fake_runner import ScriptedRunner
from tests.support.harness import running_sidecar_for_tests
from tests.support.requirement import requirement

MODEL, DATA, STORE = 1000.0, 500.0, 20.0
"""Seconds."""


class Passing(SystemClock):
    """A clock on which time passes as it does, and `seconds` more where a test says so."""

    seconds = 0.0

    @override
    def monotonic(self) -> float:
        """Return both."""
        return super().monotonic() + self.seconds


class SlowStore(MemoryStore):
    """Takes its time to open a dispatch."""

    time: Passing

    @override
    async def append(self, records: Sequence[Draft]) -> None:
        """Take it."""
        bodies = [each.body for each in records]
        self.time.seconds += STORE if any(isinstance(each, DispatchOpened) for each in bodies) else 0.0
        await super().append(records)


@requirement("PC2-OBS-5")
async def test_the_overhead_is_the_sidecars_own_time_without_model_and_data() -> None:
    """The sub-agent thinks for 1000 s and waits 500 s for data, the store takes 20 s: 20 s are told as overhead."""
    time, store = Passing(), SlowStore()
    store.time = time

    async def thinks(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        time.seconds += MODEL
        await runner.call_tool(request.grant, "offers", "{}")
        yield NarrationPart("Coffee.")
        yield RunFinished()

    def answers_late(call: EnricherCall) -> EnricherReply:
        time.seconds += DATA
        return an_envelope(call)

    async with running_sidecar_for_tests(
        cards=[a_card_with_tools("shop", "offers")], store=store, clock=time
    ) as sidecar:
        sidecar.runner.use("shop", thinks)
        sidecar.connector.reply = answers_late
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        ((_, _, overhead),) = sidecar.recorder.of("dispatch_settled")

    assert reply.outcomes == ["SUCCEEDED"]
    assert STORE <= overhead.total_seconds() < DATA
    assert reply.of("call-1").duration.ToTimedelta().total_seconds() >= MODEL + DATA
