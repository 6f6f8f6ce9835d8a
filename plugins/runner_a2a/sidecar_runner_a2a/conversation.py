"""One message to an agent and what it says to it, read by a task of its own."""

import asyncio
import contextlib
from typing import Final

from a2a.client import Client, ClientCallContext
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, SendMessageRequest, StreamResponse

from sidecar.policy.protocols import RunnerError
from sidecar_runner_a2a.ledger import Ledger

CANCEL_SECONDS: Final = 2.0
"""Longest time for telling an agent that its task is cancelled."""
MOST_WAITING: Final = 16


class Conversation:
    """Sends the message at once.

    A task of its own reads the answer, since an attempt may be cancelled before the agent has said what its task is
    called: then reading continues briefly, until the task can be cancelled.

    Args:
        client: of the agent.
        question: the message.
        context: headers of each request.
        poll_seconds: between two questions to an agent that ends its answer before its task.
    """

    def __init__(
        self, client: Client, question: SendMessageRequest, context: ClientCallContext, poll_seconds: float
    ) -> None:
        self._client, self._question, self._context = client, question, context
        self._poll_seconds = poll_seconds
        self._said: asyncio.Queue[StreamResponse | None] = asyncio.Queue(MOST_WAITING)
        self._reading = asyncio.create_task(self._read())

    async def next_response(self, task_id: str) -> StreamResponse:
        """Return what the agent says next; asks for the task where the answer has ended before it.

        Args:
            task_id: as the agent has named it; empty if it has not.

        Raises:
            RunnerError: the answer has ended, and there is no task to ask for.
            Exception: whatever the SDK raises.
        """
        if (response := await self._next()) is not None:
            return response
        if not task_id:
            raise RunnerError("the agent ended its answer without a word")
        await asyncio.sleep(self._poll_seconds)
        task = await self._client.get_task(GetTaskRequest(id=task_id), context=self._context)
        return StreamResponse(task=task)

    def stop(self) -> None:
        """Read no more."""
        self._reading.add_done_callback(_let_go)
        self._reading.cancel()

    async def cancelled(self, ledger: Ledger) -> None:
        """Have the agent cancel its task, if it says soon enough what that is called. Never raises."""
        with contextlib.suppress(Exception):  # an agent that cannot cancel continues; its answer is discarded
            async with asyncio.timeout(CANCEL_SECONDS):
                while not ledger.task_id and (response := await self._next()) is not None:
                    ledger.take_id(response)
                if ledger.task_id:
                    await self._client.cancel_task(CancelTaskRequest(id=ledger.task_id), context=self._context)
        self.stop()

    async def _next(self) -> StreamResponse | None:
        """Return what comes next, or None after the end. Raises what reading has raised, after all that came before."""
        if self._reading.done() and self._said.empty():
            await self._reading
            return None
        said = await self._said.get()
        if said is None:
            await self._reading
        return said

    async def _read(self) -> None:
        try:
            async for response in self._client.send_message(self._question, context=self._context):
                await self._said.put(response)
        finally:
            if not self._said.full():
                self._said.put_nowait(None)


def _let_go(reading: "asyncio.Task[None]") -> None:
    if not reading.cancelled():
        reading.exception()  # looked at, so that asyncio does not report it
