"""The sub-agent calls of one model response on their way into one dispatch.

LangGraph runs each tool call in a task of its own, with every middleware around it. A middleware may answer a call,
change its arguments, or hold it until a person has agreed, so only a call that came through all of them may be sent.
The calls of a response wait for each other here and go out together.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from subagents_client import CallOutcome, ToolCall
from subagents_langchain.outcomes.artifacts import failed


class Sending(Protocol):
    """What a gathering needs of the dispatches of its response."""

    async def recall(self) -> tuple[Mapping[str, CallOutcome], int]:
        """Return what an earlier run has sent of the response: outcomes by call id, and the number of dispatches.

        Raises:
            SubagentsError: it cannot be found out, so nothing may be sent.
        """
        ...

    async def send(self, number: int, calls: Sequence[ToolCall]) -> Mapping[str, CallOutcome]:
        """Send calls as the dispatch of that number, from 0, and return their outcomes by call id."""
        ...

    async def cancel(self, number: int, call_id: str) -> None:
        """Cancel one call of a dispatch; raises nothing."""
        ...


@dataclass(slots=True, eq=False)
class Batch:
    """Calls that go out together.

    Attributes:
        calls: in order of arrival.
        outcomes: by call id, once they are there.
        number: of the dispatch; None before it is sent.
        awaited: how many callers wait for an outcome.
    """

    calls: list[ToolCall]
    outcomes: asyncio.Future[Mapping[str, CallOutcome]]
    number: int | None = None
    awaited: int = 0


class Gathering:
    """Sends the calls of one response: all that come, once all have come that may.

    Args:
        expected: ids of the calls that may come. Each either comes (`ask`) or is `passed` over.
        patience: longest time that a call waits for another one. Those that come later are a further dispatch.
        sending: of this response.
        spawn: runs something in the background, for as long as the turn.
    """

    def __init__(
        self,
        expected: Iterable[str],
        patience: timedelta,
        sending: Sending,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._expected = dict.fromkeys(expected)
        self._patience = patience
        self._sending = sending
        self._spawn = spawn
        self._batches: dict[ToolCall, Batch] = {}
        self._next: Batch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._recalling = asyncio.Lock()
        self._recalled: Mapping[str, CallOutcome] | None = None
        self._dispatches = 0

    async def ask(self, call: ToolCall) -> CallOutcome:
        """Return the outcome of a call. Safe to repeat: the same call is sent once.

        If this is cancelled while others wait for their outcomes, e.g. by a time limit for each call, the call is too.

        Raises:
            SubagentsError: nothing may be sent.
        """
        async with self._recalling:
            if self._recalled is None:
                self._recalled, self._dispatches = await self._sending.recall()
                for call_id in self._recalled:
                    self._expected.pop(call_id, None)
        if call.call_id in self._recalled:
            return self._recalled[call.call_id]
        batch = self._batches.get(call) or self._join(call)
        self.passed(call.call_id)
        batch.awaited += 1
        try:
            outcomes = await asyncio.shield(batch.outcomes)
        except asyncio.CancelledError:
            self._withdraw(call, batch)
            raise
        finally:
            batch.awaited -= 1
        return outcomes.get(call.call_id) or failed(call.call_id, call.tool_name)

    def passed(self, call_id: str) -> None:
        """Take note that a call is not waited for: it has come, or it never will. Safe to repeat."""
        self._expected.pop(call_id, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next is None:
            return
        if self._expected:
            self._timer = asyncio.get_running_loop().call_later(self._patience.total_seconds(), self._go, self._next)
        else:
            self._go(self._next)

    def _join(self, call: ToolCall) -> Batch:
        if self._next is None:
            self._next = Batch([], asyncio.get_running_loop().create_future())
        self._next.calls.append(call)
        self._batches[call] = self._next
        return self._next

    def _go(self, batch: Batch) -> None:
        if batch is self._next:
            self._next = None
            batch.number, self._dispatches = self._dispatches, self._dispatches + 1
            self._spawn(self._send(batch, batch.number))

    async def _send(self, batch: Batch, number: int) -> None:
        try:
            batch.outcomes.set_result(await self._sending.send(number, batch.calls))
        except Exception as error:  # noqa: BLE001  whatever it was, it is for the caller of each call
            batch.outcomes.set_exception(error)
            batch.outcomes.exception()  # seen, even if every caller has left
        finally:
            batch.outcomes.cancel()  # does nothing unless this was cancelled

    def _withdraw(self, call: ToolCall, batch: Batch) -> None:
        if batch.number is not None:
            self._spawn(self._cancel(call, batch, batch.number))
        elif self._batches.pop(call, None):
            batch.calls.remove(call)
            if not batch.calls:
                self._next = None

    async def _cancel(self, call: ToolCall, batch: Batch, number: int) -> None:
        # If the whole run was cancelled, its other calls leave now, too: what becomes of the turn is not decided here.
        await asyncio.sleep(self._patience.total_seconds())
        if batch.awaited and not batch.outcomes.done():
            await self._sending.cancel(number, call.call_id)
