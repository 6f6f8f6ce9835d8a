"""A sub-agent host that plays scripts, and keeps what it saw."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.adapters.virtual_time import VirtualLoop
from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import SubagentsError
from sidecar.policy.protocols import (
    Answerer,
    Asked,
    ComponentMade,
    NarrationPart,
    QuestionKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from tests.support.simulation.cards import OPERATIONS, TOOL_LIMIT
from tests.support.simulation.connector import HANGING
from tests.support.simulation.scripts import AttemptScript, CallScript, Do, End, Step

IGNORES_FOR = 12.0
"""Seconds for which a sub-agent takes no notice of being cancelled."""
FLOOD = 400
STUBBORN = ", stubbornly"
CallTool = Callable[[str, str, str], Awaitable[Any]]


@dataclass(slots=True)
class ToolSeen:
    """One tool call as the sub-agent saw it; `answer` is a payload, "unavailable", or the reason of a refusal.

    `asked`: the data service was asked.
    """

    tool_id: str
    reply: str
    began_at: float
    takes: float
    ended_at: float | None = None
    answer: str = ""
    asked: bool = False


@dataclass(slots=True)
class RunSeen:
    """One attempt as the sub-agent saw it.

    Attributes:
        stopped_at: when it was told to stop.
        ended_at: when it really ended.
        durable: the contract was on record when it began.
    """

    request: RunRequest
    key: str
    script: AttemptScript
    began_at: float
    durable: bool
    stopped_at: float | None = None
    ended_at: float | None = None
    tools: list[ToolSeen] = field(default_factory=list)
    reports: list[tuple[float, str]] = field(default_factory=list)
    tokens: int = 0

    @property
    def over_at(self) -> float:
        """When it ended or was told to; infinite while neither."""
        return min(x if x is not None else float("inf") for x in (self.stopped_at, self.ended_at))


class ScriptedRunner:
    """The runner of every card, and the choice of it."""

    target = "simulated"

    def __init__(
        self,
        loop: VirtualLoop,
        scripts: Mapping[str, CallScript],
        is_durable: Callable[[str, str], bool],
        counted: Counter[str],
    ) -> None:
        """Begin without runs; `call_tool` is set once the operations are there."""
        self._loop = loop
        self._scripts = scripts
        self._is_durable = is_durable
        self._counted = counted
        self.call_tool: CallTool | None = None
        self.runs: list[RunSeen] = []
        self._tools: list[ToolSeen] = []

    def asked(self, number: int) -> None:
        """Take note that the data service was asked for a tool call."""
        self._tools[number].asked = True

    def runner_for(self, card: Card) -> "ScriptedRunner":
        """Return itself."""
        return self

    async def close(self) -> None:
        """Nothing to release."""

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Play the script of the attempt."""
        key = str(json.loads(request.arguments_json)["request"])
        script = self._scripts[key].attempt(request.attempt)
        durable = self._is_durable(request.child_id, request.contract_json)
        run = RunSeen(request, key, script, self._loop.time(), durable)
        self.runs.append(run)
        self._counted[f"sub-agent: {'asks back' if script.asks else script.end}"] += 1
        try:
            for step in script.steps:
                for event in await self._step(run, step):
                    yield event
            for event in await self._end(run):
                yield event
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if run.stopped_at is None and task is not None and task.cancelling():
                run.stopped_at = self._loop.time()
            raise
        finally:
            run.ended_at = self._loop.time()

    async def _step(self, run: RunSeen, step: Step) -> list[RunnerEvent]:
        if step.do not in (Do.WAIT, Do.STATUS, Do.NARRATE, Do.COMPONENT, Do.TOOL):
            self._counted[f"sub-agent: {step.do}"] += 1
        match step.do:
            case Do.WAIT:
                await asyncio.sleep(step.amount)
            case Do.TOOL:
                await self._tool(run, step)
            case Do.STATUS | Do.FLOOD:
                reports = FLOOD if step.do is Do.FLOOD else 1
                run.reports += [(self._loop.time(), step.text)] * reports
                return [StatusReported(step.text, {"where": "x" * 300})] * reports
            case Do.NARRATE | Do.OVERSIZE:
                return [NarrationPart(step.text)]
            case Do.COMPONENT:
                return [ComponentMade("card", "{}", '{"title": 1}')]
            case Do.LYING_COMPONENT:
                return [ComponentMade("card", "{}", '{"title": 1, "price": 0}')]
            case Do.USAGE:
                run.tokens = int(step.amount)
                return [UsageReported(int(step.amount), 0)]
        return []

    async def _tool(self, run: RunSeen, step: Step) -> None:
        tool_id, _, reply = step.text.removesuffix(STUBBORN).partition(" ")
        seen = ToolSeen(tool_id, reply, self._loop.time(), TOOL_LIMIT if reply in HANGING else step.amount)
        run.tools.append(seen)
        self._tools.append(seen)
        assert self.call_tool is not None
        said: dict[str, object] = {"reply": reply, "takes": step.amount, "number": len(self._tools) - 1}
        if tool_id in OPERATIONS:  # another attempt says the same
            said = {"reply": reply, "takes": step.amount, "call": run.key}
        arguments = json.dumps(said)
        try:
            calling = self.call_tool(run.request.grant, tool_id, arguments)
            result = await (self._stubbornly(run, calling) if step.text.endswith(STUBBORN) else calling)
            seen.answer = "unavailable" if result.payload_json is None else result.payload_json
        except SubagentsError as refused:
            seen.answer = refused.reason
        seen.ended_at = self._loop.time()
        if run.stopped_at is not None and step.text.endswith(STUBBORN):
            raise asyncio.CancelledError

    async def _stubbornly(self, run: RunSeen, calling: Awaitable[Any]) -> Any:
        """Wait for a tool call whatever comes."""
        task = self._loop.create_task(calling, name=f"tool of {run.key}")
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                run.stopped_at = self._loop.time()
                self._counted["sub-agent: cancelled and went on with a tool call"] += 1
        return task.result()

    async def _end(self, run: RunSeen) -> list[RunnerEvent]:
        match run.script.end:
            case End.FINISH | End.FINISH_WITHOUT_DATA:
                asks = "May I?", '{"key": 1}', Answerer.USER, run.script.asks_for, run.key.encode()
                asked = Asked(QuestionKind.NEEDS_APPROVAL, *asks) if run.script.asks else None
                finished = RunFinished(run.script.end is End.FINISH_WITHOUT_DATA, asked)
                return [finished, NarrationPart("after the end")]
            case End.INLINE_JSON:
                return [NarrationPart('here: ```json {"a": 1}```'), RunFinished()]
            case End.NO_END:
                return []
            case End.NO_EVENT:
                return [5]  # type: ignore[list-item]  # what a broken runner does
            case End.HANG:
                await asyncio.sleep(3600)
                return []
            case End.IGNORE_CANCEL:
                await self._ignore_cancel(run)
                return [NarrationPart("too late"), RunFinished()]
            case broken:
                raise _error_of(broken)

    async def _ignore_cancel(self, run: RunSeen) -> None:
        until = self._loop.time() + IGNORES_FOR
        while self._loop.time() < until:
            try:
                await asyncio.sleep(until - self._loop.time())
            except asyncio.CancelledError:
                run.stopped_at = self._loop.time()
                self._counted["sub-agent: cancelled and went on"] += 1
        await self._tool(run, Step(Do.TOOL, 0.1, "notes ok"))


def _error_of(end: End) -> BaseException:
    errors: dict[End, BaseException] = {
        End.TRANSIENT: RunnerError("try again", transient=True),
        End.UNREACHABLE: RunnerError("not there", transient=True, unreachable=True),
        End.FATAL: RunnerError("broken"),
        End.VALUE_ERROR: ValueError("secret of the sub-agent"),
        End.SYSTEM_EXIT: SystemExit(3),
        End.RECURSION: RecursionError(),
        End.CANCELS_ITSELF: asyncio.CancelledError(),
    }
    return errors[end]
