"""One dispatch for the parallel tool calls of a model response, under any agent framework."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from subagents_client.coalescing.call_batch import A_TICK, CallBatch, Settled
from subagents_client.events import CallStateChanged, DispatchEvent
from subagents_client.outcomes import CallOutcome, DispatchResult, ToolCall
from subagents_client.turn import NO_CONTEXT, BoundTurn, DispatchContext
from subagents_errors import SubagentsError

PATIENCE: Final = timedelta(milliseconds=200)
CANCEL_TIMEOUT: Final = timedelta(seconds=1)


class Coalescer:
    """Collects tool calls that a framework runs in parallel, and sends them as one dispatch of a bound turn.

    Every call gets exactly one outcome; a failure is an outcome, too. Use the object in the event loop of the turn, as
    an async context manager: leaving the block stops listening to running dispatches.

    Args:
        turn: the bound turn that sends the dispatches.
        context: the input that all sub-agents of every dispatch share.
        window: wait for further calls after the last arrival; 0 is one pass of the event loop.
        patience: maximum wait for a call that was announced with `expect`.
        on_event: called with each event of each dispatch, e.g. to show progress; must not block.

    Attributes:
        turn: the bound turn.
        results: the results of the dispatches that have ended, in the order in which they ended.
    """

    def __init__(
        self,
        turn: BoundTurn,
        context: DispatchContext = NO_CONTEXT,
        *,
        window: timedelta = A_TICK,
        patience: timedelta = PATIENCE,
        on_event: Callable[[DispatchEvent], None] | None = None,
    ) -> None:
        self.turn = turn
        self.results: list[DispatchResult] = []
        self._context = context
        self._on_event = on_event
        self._tasks: set[asyncio.Task[None]] = set()
        self._ids: dict[int, str] = {}
        self._outcomes: dict[str, CallOutcome] = {}
        self._gathering = CallBatch((), patience, self, self._spawn, window)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening to running dispatches; `on_disconnect` decides whether their calls continue."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def outcomes(self) -> Mapping[str, CallOutcome]:
        """All outcomes known so far, by call id, including those of running dispatches."""
        return dict(self._outcomes)

    def expect(self, call_ids: Iterable[str]) -> None:
        """Announce the sub-agent calls of a response, in emission order, before the framework runs them.

        The dispatch then waits for all of them, at most `patience`, and keeps their order. Without an announcement,
        calls that arrive within the `window` go out together, in order of arrival.
        """
        self._gathering.expect(call_ids)

    def skip(self, call_id: str) -> None:
        """Stop waiting for an announced call that the framework will not run, e.g. because a person refused it."""
        self._gathering.passed(call_id)

    async def ask(self, call: ToolCall) -> CallOutcome:
        """Return the outcome of one call. Use this method as the body of a framework's tool.

        A failed call is an outcome, not an exception. The method returns as soon as the call has settled, except for
        the last call of a response: it returns when the result of its dispatch is in `results`. Safe to repeat: a call
        with the same id, tool and arguments is sent once in a turn. If the caller is cancelled while other callers
        wait, the sidecar cancels its call.
        """
        return await self._gathering.ask(call)

    async def recall(self) -> tuple[Mapping[str, CallOutcome], int]:
        """Return no outcomes and 0: a turn that was bound in this process has no earlier dispatches."""
        return {}, 0

    async def send(self, number: int, calls: Sequence[ToolCall], settled: Settled) -> Mapping[str, CallOutcome]:
        """Send calls as one dispatch. `CallBatch` calls this."""
        try:
            async with self.turn.dispatch(calls, self._context) as stream:
                self._ids[number] = stream.dispatch_id
                async for event in stream:
                    if self._on_event is not None:
                        self._on_event(event)
                    if isinstance(event, CallStateChanged) and event.outcome is not None:
                        self._outcomes[event.call_id] = event.outcome
                        settled(event.outcome)
                result = await stream.result()
        except SubagentsError as error:
            result = self.turn.unanswered(calls, error)
        self.results.append(result)
        outcomes = {one.call_id: one for one in result.outcomes}
        self._outcomes |= outcomes
        return outcomes

    async def cancel(self, number: int, call_id: str) -> None:
        """Cancel one call of a dispatch. `CallBatch` calls this."""
        try:
            await self.turn.cancel_call(self._ids[number], call_id, timeout=CANCEL_TIMEOUT)
        except SubagentsError:
            return  # the call ends by its own deadline, or with the turn

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
