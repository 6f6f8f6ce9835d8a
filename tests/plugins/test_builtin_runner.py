"""The runner that comes with the sidecar passes the suite that every runner has to, against the SDK's runner host."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from sidecar.adapters.runner_grpc.plugin import sidecar_runners
from sidecar.core.identifiers import EpisodeId, Principal, TurnId
from sidecar.policy.protocols import InheritedContext, Runner
from sidecar.policy.specs import RunnerConfig
from sidecar_conformance import runner_bench as script
from sidecar_conformance.runner import AgentScript, RunnerBench, RunnerSuite, SeenRun
from subagents_client.runner import Answer, HostLimits, Run, RunnerHost


class HostBench(RunnerBench):
    """Runners `grpc`, and a host of the SDK with one scripted sub-agent."""

    def __init__(self, folder: Path) -> None:
        self._target = f"unix:{folder / 'host.sock'}"
        self.seen: list[SeenRun] = []
        self._started: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve."""
        host = RunnerHost(limits=HostLimits(grace=timedelta(seconds=2)))
        host.sub_agent("scripted", needs_card=True)(self._play)
        async with host.serving(self._target):
            yield

    def make(self) -> Runner:
        """Make one as the composition root would."""
        return self._made(self._target)

    def make_without_host(self) -> Runner:
        """Make one for a socket that is not there."""
        return self._made(f"{self._target}.nobody")

    async def started(self, child_id: str) -> None:
        """Wait for the sub-agent to work."""
        await self._started[child_id].wait()

    async def ended(self, child_id: str) -> None:
        """Wait for the sub-agent to stop."""
        await self._ended[child_id].wait()

    def _made(self, target: str) -> Runner:
        (spec,) = sidecar_runners()
        return spec.factory(RunnerConfig(settings={}, target=target, gateway_address=""))

    async def _play(self, run: Run) -> Answer:
        self.seen.append(_seen(run))
        self._started[run.child_id].set()
        try:
            return await _act(run)
        finally:
            self._ended[run.child_id].set()


async def _act(run: Run) -> Answer:
    match AgentScript(run.request):
        case AgentScript.FAIL:
            raise RuntimeError(script.FAILURE)
        case AgentScript.HANG:
            await asyncio.Event().wait()
        case AgentScript.NO_DATA:
            return Answer("There is nothing.", data_unavailable=True)
        case AgentScript.FAIL_LATE:
            await _tell(run)
            raise RuntimeError(script.FAILURE)
        case AgentScript.ANSWER:
            await run.status(script.STATUS_TYPE, **script.STATUS_ATTRIBUTES)
            await _tell(run)
            run.usage(input_tokens=script.INPUT_TOKENS, output_tokens=script.OUTPUT_TOKENS)
        case AgentScript.EMPTY:
            pass
    return Answer("")


async def _tell(run: Run) -> None:
    run.render(
        script.COMPONENT,
        tool_input=json.loads(script.TOOL_INPUT_JSON),
        component_data=json.loads(script.COMPONENT_DATA_JSON),
    )
    for part in script.NARRATION:
        await run.narrate(part)


def _seen(run: Run) -> SeenRun:
    context = run.context
    inherited = InheritedContext(
        principal=Principal(context.principal),
        episode_id=EpisodeId(context.episode_id),
        turn_id=TurnId(context.turn_id),
        locale=context.locale,
        location=context.location,
        prior_context=context.prior_context,
        task_prompt=context.task_prompt,
    )
    return SeenRun(run.child_id, inherited, json.dumps(run.arguments), json.dumps(run.contract), None)


class TestGrpc(RunnerSuite):
    """`grpc`, over a Unix socket."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> HostBench:
        """Make one."""
        return HostBench(tmp_path)
