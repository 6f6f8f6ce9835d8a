"""The runner `a2a` passes the suite that every runner has to, against an agent made with the official SDK."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.types.a2a_pb2 import Part, TaskState
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from typing_extensions import override

from plugins.runner_a2a.tests.agents import NOBODY, Agent, Asked, runner_of
from sidecar.core.identifiers import EpisodeId, Principal, TurnId
from sidecar.policy.protocols import InheritedContext
from sidecar_conformance import runner_bench as script
from sidecar_conformance.runner import AgentScript, RunnerBench, RunnerSuite, SeenRun
from sidecar_runner_a2a.agent_card import EXTENSION
from sidecar_runner_a2a.runner import A2aRunner


def component() -> Part:
    """Return the suite's component, as a sub-agent that knows the extension says it."""
    part = Part(data=ParseDict(json.loads(script.COMPONENT_DATA_JSON), Value()))
    part.metadata.update({EXTENSION: {"component": script.COMPONENT, "tool_input": json.loads(script.TOOL_INPUT_JSON)}})
    return part


class A2aBench(RunnerBench):
    """An agent that does what its argument `request` says."""

    def __init__(self, binding: str) -> None:
        self._binding = binding
        self._seen: list[SeenRun] = []
        self._changed = asyncio.Condition()
        self._ended: set[str] = set()
        self._child_of_task: dict[str, str] = {}
        self._url = ""

    @override
    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.seen = self._seen
        agent = _Ending(self._work)
        agent.bench = self
        async with agent.running(self._binding) as url:
            self._url = url
            yield

    @override
    def make(self) -> A2aRunner:
        return runner_of(self._url)

    @override
    def make_without_host(self) -> A2aRunner:
        return runner_of(NOBODY)

    @override
    async def started(self, child_id: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: child_id in {run.child_id for run in self._seen})

    @override
    async def ended(self, child_id: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: child_id in self._ended)

    async def over(self, task_id: str) -> None:
        """Note the end of a task."""
        async with self._changed:
            self._ended.add(self._child_of_task[task_id])
            self._changed.notify_all()

    async def _work(self, asked: Asked) -> None:
        who, details = asked.identity, asked.details
        self._child_of_task[asked.updates.task_id] = who["child_id"]
        context = InheritedContext(
            principal=Principal(who["principal"]),
            episode_id=EpisodeId(who["episode_id"]),
            turn_id=TurnId(who["turn_id"]),
            locale=details.get("locale"),
            location=details.get("location"),
            prior_context=details["prior_context"],
            task_prompt=details["task_prompt"],
        )
        arguments = details["arguments_json"]
        self._seen.append(SeenRun(who["child_id"], context, arguments, details["contract_json"], details.get("grant")))
        async with self._changed:
            self._changed.notify_all()
        await self._follow(AgentScript(json.loads(arguments)["request"]), asked)

    async def _follow(self, said: AgentScript, asked: Asked) -> None:
        updates = asked.updates
        match said:
            case AgentScript.ANSWER:
                await asked.report(status=script.STATUS_TYPE, attributes=dict(script.STATUS_ATTRIBUTES))
                await updates.add_artifact([component()])
                await asked.say(*script.NARRATION)
                await asked.report(usage={"input_tokens": script.INPUT_TOKENS, "output_tokens": script.OUTPUT_TOKENS})
                await updates.complete()
            case AgentScript.NO_DATA:
                await asked.say("Without data.")
                done: Any = {EXTENSION: {"data_unavailable": True}}
                await updates.update_status(TaskState.TASK_STATE_COMPLETED, metadata=done)
            case AgentScript.EMPTY:
                await updates.complete()
            case AgentScript.FAIL:
                raise RuntimeError(script.FAILURE)
            case AgentScript.FAIL_LATE:
                await updates.add_artifact([component()])
                await asked.say(*script.NARRATION)
                raise RuntimeError(script.FAILURE)
            case AgentScript.HANG:
                await asyncio.Event().wait()


class _Ending(Agent):
    bench: A2aBench

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await super().cancel(context, event_queue)
        await self.bench.over(context.task_id or "")


class TestJsonRpc(RunnerSuite):
    """Over JSON-RPC with server-sent events."""

    @pytest.fixture
    def bench(self) -> A2aBench:
        """Make one."""
        return A2aBench("JSONRPC")


class TestRest(RunnerSuite):
    """Over REST with server-sent events."""

    @pytest.fixture
    def bench(self) -> A2aBench:
        """Make one."""
        return A2aBench("HTTP+JSON")
