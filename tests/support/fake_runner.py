"""A runner in this process whose sub-agents do what a test says, and a connector whose data service does."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from sidecar.core.identifiers import Slot
from sidecar.operations.turn.child.call_tool import ToolResult
from sidecar.policy.protocols import (
    ComponentMade,
    EnricherAnswer,
    EnricherCall,
    EnricherReply,
    NarrationPart,
    RunFinished,
    RunnerEvent,
    RunRequest,
    StatusReported,
    UsageReported,
)
from tests.support.requests import failure_of

Script = Callable[[RunRequest, "ScriptedRunner"], AsyncGenerator[RunnerEvent, None]]
"""What a sub-agent does in one attempt."""


class ScriptedRunner:
    """Executes a script per slot; by default it answers at once.

    Attributes:
        requests: what it was asked, in order; also by attempts that were cancelled.
        cancelled: slots whose attempt was told to stop, in order.
        call_tool: the tool gateway over its RPC: grant, tool id, arguments. Set by the harness.
        delegate: the same for delegation: grant, tool name, arguments.
    """

    target = "scripted"

    def __init__(self, scripts: Mapping[str, Script] | None = None) -> None:
        """Begin with scripts by slot."""
        self._scripts = dict(scripts or {})
        self._started: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._cancelled: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.requests: list[RunRequest] = []
        self.cancelled: list[str] = []
        self.call_tool: Callable[[str, str, str], Awaitable[ToolResult]]
        self.delegate: Callable[..., Awaitable[Any]]

    @property
    def started(self) -> list[str]:
        """Slots in the order in which their attempts began."""
        return [request.card.definition.slot for request in self.requests]

    def use(self, slot: str, script: Script) -> None:
        """Let a sub-agent do something else from now on."""
        self._scripts[slot] = script

    def request_of(self, slot: str) -> RunRequest:
        """Return what a slot was asked last."""
        return next(each for each in reversed(self.requests) if each.card.definition.slot == slot)

    async def until_started(self, *slots: str) -> None:
        """Wait until each of the slots has begun an attempt."""
        for slot in slots:
            await self._started[slot].wait()

    async def until_cancelled(self, *slots: str) -> None:
        """Wait until an attempt of each of the slots was told to stop."""
        for slot in slots:
            await self._cancelled[slot].wait()

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Execute one attempt."""
        slot: Slot = request.card.definition.slot
        self.requests.append(request)
        self._started[slot].set()
        try:
            async with aclosing(self._scripts.get(slot, answers())(request, self)) as events:
                async for event in events:
                    yield event
        except asyncio.CancelledError:
            self.cancelled.append(slot)
            self._cancelled[slot].set()
            raise

    async def close(self) -> None:
        """Do nothing."""


def answers(
    text: str = "",
    *,
    components: Sequence[ComponentMade] = (),
    statuses: Sequence[str] = (),
    usage: tuple[int, int] | None = None,
    data_unavailable: bool = False,
) -> Script:
    """Report progress, make components, say the text (default: `hello from <slot>`), and finish."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for status in statuses:
            yield StatusReported(status)
        for component in components:
            yield component
        if usage is not None:
            yield UsageReported(*usage)
        yield NarrationPart(text or f"hello from {request.card.definition.slot}")
        yield RunFinished(data_unavailable)

    return script


def reports(*reported: StatusReported) -> Script:
    """Report progress, then answer."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for one in reported:
            yield one
        yield NarrationPart("done")
        yield RunFinished()

    return script


def hangs() -> Script:
    """Never end."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await asyncio.Event().wait()
        yield RunFinished()

    return script


def waits_for(event: asyncio.Event, then: Script | None = None) -> Script:
    """Wait for an event, then do something else (default: answer)."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await event.wait()
        async for each in (then or answers())(request, runner):
            yield each

    return script


def meets(*others: str) -> Script:
    """Answer only once each of the other slots runs as well: proves that they run at the same time."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        await runner.until_started(*others)
        async for each in answers()(request, runner):
            yield each

    return script


def narrates(text: str, *, before: Callable[[RunRequest], None], after: Callable[[], None]) -> Script:
    """Answer, and let a test look at what there is before and after the text."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        before(request)
        yield NarrationPart(text)
        after()
        yield RunFinished()

    return script


def raises(error: BaseException, *, after: str = "") -> Script:
    """Raise, perhaps after having said something."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        if after:
            yield NarrationPart(after)
        raise error

    return script


def fails_first(times: int, error: BaseException) -> Script:
    """Raise in the first attempts of each child, then answer."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        if request.attempt <= times:
            raise error
        async for each in answers()(request, runner):
            yield each

    return script


def floods() -> Script:
    """Report without end."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        while True:
            yield StatusReported("searching_offers", {"text": "x" * 200})

    return script


def says_too_much() -> Script:
    """Bring a narration without end."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        while True:
            yield NarrationPart("x" * 65_536)

    return script


def ends_early() -> Script:
    """Say something, and end without having finished."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        yield NarrationPart("half of")

    return script


def lies() -> Script:
    """Make a component that the card does not declare."""
    return answers(components=[ComponentMade("render_nothing", "{}", "{}")])


def ignores_cancel(until: asyncio.Event) -> Script:
    """Hang, and go on when told to stop, until a test allows the end."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        while not until.is_set():
            try:
                await until.wait()
            except asyncio.CancelledError:
                continue
        yield NarrationPart("far too late")
        yield RunFinished()

    return script


def calls_tool(tool_id: str, arguments_json: str = "{}", *, times: int = 1) -> Script:
    """Call a data-backed tool through the gateway's RPC and say what came; data that did not come is said to be so."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        missing = False
        for _ in range(times):
            result = await runner.call_tool(request.grant, tool_id, arguments_json)
            missing = missing or result.payload_json is None
            yield NarrationPart(f"got {'nothing' if result.payload_json is None else 'data'};")
        yield RunFinished(missing)

    return script


async def looks_twice(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
    """Ask the data service `orders` twice, which a budget of one call refuses, and end with half an answer."""
    await runner.call_tool(request.grant, "orders", "{}")
    await failure_of(runner.call_tool(request.grant, "orders", "{}"))
    yield NarrationPart("Half of it.")
    yield RunFinished()


class ScriptedConnector:
    """A data service in this process.

    Attributes:
        calls: what it was asked, in order.
        reply: makes the answer to a call, or is awaited for it; default: an envelope without a payload that no check
            lets through.
    """

    def __init__(self, reply: Callable[[EnricherCall], EnricherReply | Awaitable[Any]] | None = None) -> None:
        """Begin without calls."""
        self.calls: list[EnricherCall] = []
        self.reply = reply or (lambda call: EnricherAnswer(b"{}"))

    def connector_for(self, card: Any, tool_id: str) -> "ScriptedConnector":
        """Carry the requests of every tool."""
        return self

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Answer."""
        self.calls.append(call)
        reply = self.reply(call)
        answer: EnricherReply = await reply if isinstance(reply, Awaitable) else reply
        return answer

    async def close(self) -> None:
        """Do nothing."""
