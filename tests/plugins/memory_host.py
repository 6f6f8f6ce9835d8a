"""A scripted sub-agent in this process, and a right runner for it, for tests of the runner suite."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from sidecar_conformance import runner_bench as script
from sidecar_conformance.runner_bench import AgentScript, RunnerBench, SeenRun


class StraightRunner:
    """Does everything right. The steps are methods, so that a defect replaces one."""

    def __init__(self, bench: "MemoryHostBench", *, there: bool = True) -> None:
        self.bench = bench
        self.there = there
        self.closed = False

    @property
    def target(self) -> str:
        """Return the host's name."""
        return "memory:host"

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Pass the sub-agent's events on."""
        if self.closed or not self.there:
            raise RunnerError("nobody is there", transient=True, unreachable=True)
        try:
            async for event in self.bench.agent(self.seen_of(request)):
                yield event
        except ValueError as error:
            raise RunnerError(str(error)) from error

    def seen_of(self, request: RunRequest) -> SeenRun:
        """Return what the sub-agent is given."""
        return SeenRun(
            child_id=request.child_id,
            context=request.context,
            arguments_json=request.arguments_json,
            contract_json=request.contract_json,
            grant=request.grant,
        )

    async def close(self) -> None:
        """Run nothing any more."""
        self.closed = True


class MemoryHostBench(RunnerBench):
    """The host."""

    def __init__(self, runner_type: type[StraightRunner] = StraightRunner) -> None:
        self._type = runner_type
        self._runs: list[SeenRun] = []
        self.seen = self._runs
        self._started: Any = defaultdict(asyncio.Event)
        self._ended: Any = defaultdict(asyncio.Event)

    def make(self) -> StraightRunner:
        """Make one."""
        return self._type(self)

    def make_without_host(self) -> StraightRunner:
        """Make one that reaches nobody."""
        return self._type(self, there=False)

    async def started(self, child_id: str) -> None:
        """Wait for the sub-agent to begin."""
        await self._started[child_id].wait()

    async def ended(self, child_id: str) -> None:
        """Wait for the sub-agent to end."""
        await self._ended[child_id].wait()

    async def agent(self, run: SeenRun) -> AsyncIterator[RunnerEvent]:
        """Follow the script."""
        self._runs.append(run)
        self._started[run.child_id].set()
        try:
            what = AgentScript(json.loads(run.arguments_json)["request"])
            if what is AgentScript.FAIL:
                raise ValueError(script.FAILURE)
            if what is AgentScript.HANG:
                await asyncio.Event().wait()
            if what is AgentScript.ANSWER:
                yield StatusReported(script.STATUS_TYPE, script.STATUS_ATTRIBUTES)
            if what in {AgentScript.ANSWER, AgentScript.FAIL_LATE}:
                yield ComponentMade(script.COMPONENT, script.TOOL_INPUT_JSON, script.COMPONENT_DATA_JSON)
            for text in script.NARRATION if what is not AgentScript.EMPTY else ():
                yield NarrationPart(text)
            if what is AgentScript.FAIL_LATE:
                raise ValueError(script.FAILURE)
            yield UsageReported(script.INPUT_TOKENS // 2, script.OUTPUT_TOKENS // 2)
            yield UsageReported(script.INPUT_TOKENS, script.OUTPUT_TOKENS)
            yield RunFinished(data_unavailable=what is AgentScript.NO_DATA)
        finally:
            self._ended[run.child_id].set()
