"""Collects the sub-agent calls of one model response into one dispatch.

Agent frameworks run each tool call of a response in a task of its own, often with hooks, approvals or guardrails around
it. Only a call that has passed all of these may be sent. The calls of a response therefore wait here for each other.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from subagents_client.outcomes import CallOutcome, ToolCall
from subagents_client.synthetic_outcomes import failed_call

Settled = Callable[[CallOutcome], None]
"""Callback with the outcome of one call, while other calls of the dispatch still run."""
A_TICK = timedelta(0)
"""One pass of the event loop, in which all tasks that were created together arrive."""


class Sender(Protocol):
    """Sends the dispatches of a `CallBatch`."""

    async def recall(self) -> tuple[Mapping[str, CallOutcome], int]:
        """Return the outcomes, by call id, and the number of the dispatches that an earlier run of the agent has sent.

        Raises:
            SubagentsError: the sidecar cannot tell, so no call may be sent: it could run twice.
        """
        ...

    async def send(self, number: int, calls: Sequence[ToolCall], settled: Settled) -> Mapping[str, CallOutcome]:
        """Send calls as one dispatch and return their outcomes by call id.

        Args:
            number: number of the dispatch in this batch, from 0.
            calls: in emission order.
            settled: may be called with each outcome as soon as it is known.
        """
        ...

    async def cancel(self, number: int, call_id: str) -> None:
        """Cancel one call of a dispatch; raises nothing."""
        ...


@dataclass(slots=True, eq=False)
class Waiting:
    """One call that waits for its outcome.

    Attributes:
        outcome: completed with the outcome of the call, or with the exception of the dispatch.
        callers: number of tasks that wait for `outcome`.
    """

    outcome: asyncio.Future[CallOutcome]
    callers: int = 0


@dataclass(slots=True, eq=False)
class Batch:
    """The calls of one dispatch.

    Attributes:
        calls: the calls in order of arrival, each with its waiting callers.
        number: number of the dispatch, from 0; None before it is sent.
    """

    calls: dict[ToolCall, Waiting]
    number: int | None = None

    def awaited(self) -> list[ToolCall]:
        """Return the calls that have no outcome and at least one waiting caller."""
        return [call for call, waiting in self.calls.items() if waiting.callers and not waiting.outcome.done()]

    def settled(self, outcome: CallOutcome) -> None:
        """Complete a call with its outcome, unless it is the only call that is still awaited.

        The callers of the last call continue only when the dispatch has its result, because the agent's next step needs
        this result.
        """
        awaited = self.awaited()
        for call in awaited if len(awaited) > 1 else ():
            if call.call_id == outcome.call_id:
                self.calls[call].outcome.set_result(outcome)


class CallBatch:
    """Collects calls and sends them together, when all expected calls have arrived and the window has passed.

    Args:
        expected: ids of the calls that may arrive, in emission order. Each call either arrives (`ask`) or is `passed`.
        patience: maximum wait for an expected call after the last arrival. Later arrivals form a further dispatch.
        sender: sends the dispatches.
        spawn: runs a coroutine in the background, and cancels it at the end of the turn.
        window: wait for unexpected calls after the last arrival; 0 is one pass of the event loop.
    """

    def __init__(
        self,
        expected: Iterable[str],
        patience: timedelta,
        sender: Sender,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        window: timedelta = A_TICK,
    ) -> None:
        self._expected: dict[str, None] = {}
        self._places: dict[str, int] = {}
        self._patience = patience
        self._window = window
        self._sender = sender
        self._spawn = spawn
        self._batches: dict[ToolCall, Batch] = {}
        self._next: Batch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._recalling = asyncio.Lock()
        self._recalled: Mapping[str, CallOutcome] | None = None
        self._dispatches = 0
        self.expect(expected)

    def expect(self, call_ids: Iterable[str]) -> None:
        """Add ids of expected calls, in emission order. Pass all calls of one response together."""
        for call_id in call_ids:
            self._expected[call_id] = None
            self._places.setdefault(call_id, len(self._places))

    async def ask(self, call: ToolCall) -> CallOutcome:
        """Return the outcome of a call. Safe to repeat: an equal call is sent only once.

        If the caller is cancelled, e.g. by a time limit of the framework, while calls of other callers still wait, the
        sidecar is asked to cancel this call.

        Raises:
            SubagentsError: the call could not be sent.
        """
        async with self._recalling:
            if self._recalled is None:
                self._recalled, self._dispatches = await self._sender.recall()
                for call_id in self._recalled:
                    self._expected.pop(call_id, None)
        if call.call_id in self._recalled:
            return self._recalled[call.call_id]
        batch = self._batches.get(call) or self._join(call)
        self.passed(call.call_id)
        waiting = batch.calls[call]
        waiting.callers += 1
        try:
            return await asyncio.shield(waiting.outcome)
        except asyncio.CancelledError:
            self._withdraw(call, batch)
            raise
        finally:
            waiting.callers -= 1

    def passed(self, call_id: str) -> None:
        """Stop waiting for a call: it has arrived, or it never will. Safe to repeat."""
        self._expected.pop(call_id, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next is not None:
            wait = self._patience if self._expected else self._window
            self._timer = asyncio.get_running_loop().call_later(wait.total_seconds(), self._go, self._next)

    def _join(self, call: ToolCall) -> Batch:
        if self._next is None:
            self._next = Batch({})
        self._next.calls[call] = Waiting(asyncio.get_running_loop().create_future())
        self._batches[call] = self._next
        return self._next

    def _go(self, batch: Batch) -> None:
        if batch is self._next:
            self._next = None
            batch.number, self._dispatches = self._dispatches, self._dispatches + 1
            self._spawn(self._send(batch, batch.number))

    async def _send(self, batch: Batch, number: int) -> None:
        calls = sorted(batch.calls, key=lambda call: self._places.get(call.call_id, len(self._places)))
        outcomes: Mapping[str, CallOutcome] = {}
        failure: Exception | None = None
        ended = False
        try:
            outcomes = await self._sender.send(number, calls, batch.settled)
            ended = True
        except Exception as error:  # noqa: BLE001  every caller gets the exception, of whatever class
            failure = error
        finally:
            for call, waiting in batch.calls.items():
                if waiting.outcome.done():
                    continue
                if failure is not None:
                    waiting.outcome.set_exception(failure)
                    waiting.outcome.exception()  # retrieved, even if every caller has left
                elif ended:
                    waiting.outcome.set_result(outcomes.get(call.call_id) or failed_call(call))
                else:
                    waiting.outcome.cancel()  # this task was cancelled

    def _withdraw(self, call: ToolCall, batch: Batch) -> None:
        if batch.number is not None:
            self._spawn(self._cancel(call, batch, batch.number))
        elif self._batches.pop(call, None):
            del batch.calls[call]
            if not batch.calls:
                self._next = None

    async def _cancel(self, call: ToolCall, batch: Batch, number: int) -> None:
        # If the whole run is cancelled, all callers leave during this pause. Then `on_disconnect` decides instead.
        await asyncio.sleep(self._patience.total_seconds())
        if batch.awaited() and not batch.calls[call].outcome.done():
            await self._sender.cancel(number, call.call_id)
