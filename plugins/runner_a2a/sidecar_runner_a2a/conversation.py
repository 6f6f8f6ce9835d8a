"""One message to an agent, and the agent's responses, which a background task reads."""

import asyncio
import contextlib
from typing import Final

from a2a.client import Client, ClientCallContext
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, SendMessageRequest, StreamResponse

from sidecar.policy.protocols import RunnerError
from sidecar_runner_a2a.ledger import Ledger

CANCEL_SECONDS: Final = 2.0
"""Maximum time to cancel a task at its agent."""
MOST_WAITING: Final = 16
"""Maximum number of responses that are read ahead."""


class Conversation:
    """Sends a message to an agent and reads the responses.

    A background task reads, because an attempt may be cancelled before the agent has sent the id of its task. Reading
    then continues briefly, until the id is known and the task can be cancelled.

    Args:
        client: client of the agent.
        question: the message, which is sent at once.
        context: headers of each request.
        poll_seconds: time between two requests for a task whose stream has ended before the task.
    """

    def __init__(
        self, client: Client, question: SendMessageRequest, context: ClientCallContext, poll_seconds: float
    ) -> None:
        self._client, self._question, self._context = client, question, context
        self._poll_seconds = poll_seconds
        self._responses: asyncio.Queue[StreamResponse | None] = asyncio.Queue(MOST_WAITING)
        self._reading = asyncio.create_task(self._read())

    async def next_response(self, task_id: str) -> StreamResponse:
        """Return the next response of the agent. After the end of the stream, wait and request the task.

        Args:
            task_id: id of the task, from the agent; empty if the agent has not sent one.

        Raises:
            RunnerError: the stream has ended, and there is no task id.
            Exception: any exception of the SDK.
        """
        if (response := await self._next()) is not None:
            return response
        if not task_id:
            raise RunnerError("the agent ended its answer without a word")
        await asyncio.sleep(self._poll_seconds)
        task = await self._client.get_task(GetTaskRequest(id=task_id), context=self._context)
        return StreamResponse(task=task)

    def stop(self) -> None:
        """Stop reading."""
        self._reading.add_done_callback(_consume_exception)
        self._reading.cancel()

    async def cancelled(self, ledger: Ledger) -> None:
        """Cancel the task at the agent, if its id is known or arrives in time; then stop reading. Never raises."""
        with contextlib.suppress(Exception):  # an agent that cannot cancel continues; its answer is discarded
            async with asyncio.timeout(CANCEL_SECONDS):
                while not ledger.task_id and (response := await self._next()) is not None:
                    ledger.take_id(response)
                if ledger.task_id:
                    await self._client.cancel_task(CancelTaskRequest(id=ledger.task_id), context=self._context)
        self.stop()

    async def _next(self) -> StreamResponse | None:
        """Return the next response, or None after the last one. After the last one, raises the exception of reading."""
        if self._reading.done() and self._responses.empty():
            await self._reading
            return None
        response = await self._responses.get()
        if response is None:
            await self._reading
        return response

    async def _read(self) -> None:
        try:
            async for response in self._client.send_message(self._question, context=self._context):
                await self._responses.put(response)
        finally:
            if not self._responses.full():
                self._responses.put_nowait(None)


def _consume_exception(reading: "asyncio.Task[None]") -> None:
    if not reading.cancelled():
        reading.exception()  # retrieved, so that asyncio does not log it as never retrieved
