"""The border around one gate client: it may hang, and cling to a question that was given up."""

import asyncio
from typing import Final, Never

from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable

MOST_LEFT: Final = 8
"""Questions that may go on in a client although they were given up; then it is asked no more until one has ended."""
CLOSE_SECONDS: Final = 2.0


class BrokenGate:
    """Stands where a gate client could not be made: its gates hold.

    Args:
        problem: why, for operators.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    async def ask(self, question: GateQuestion) -> Never:
        """Raise `GateUnavailable`."""
        raise GateUnavailable(f"the client of {question.gate} could not be made: {self._problem}")

    async def close(self) -> None:
        """Do nothing."""


class GuardedGate:
    """Asks a client so that giving up works whatever the client does, short of blocking the event loop.

    Args:
        name: of the client, for operators.
        client: is closed with this.
    """

    def __init__(self, name: str, client: GateClient) -> None:
        self._name = name
        self._client = client
        self._left: list[asyncio.Task[GateAnswer]] = []

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Ask; if cancelled, cancel the client's work and do not wait for it.

        Raises:
            GateUnavailable: too many questions that were given up are still going on, or it gave this one up itself.
        """
        self._left = [task for task in self._left if not task.done()]
        if len(self._left) >= MOST_LEFT:
            raise GateUnavailable(f"gate client {self._name} does not come back from {MOST_LEFT} earlier questions")
        task = asyncio.get_running_loop().create_task(self._asked(question))
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_heard)
                self._left.append(task)
        if task.cancelled():
            raise GateUnavailable(f"gate client {self._name} gave the question up by itself")
        return task.result()

    async def close(self) -> None:
        """Close the client, within a bound; what goes wrong is of no interest any more."""
        task = asyncio.get_running_loop().create_task(self._closed())
        await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        task.cancel()
        task.add_done_callback(_heard)

    async def _asked(self, question: GateQuestion) -> GateAnswer:
        try:
            return await self._client.ask(question)
        except (SystemExit, KeyboardInterrupt) as error:  # out of a task either would end the process
            raise GateUnavailable(f"gate client {self._name} raised {type(error).__name__}") from None

    async def _closed(self) -> None:
        try:
            await self._client.close()
        except (SystemExit, KeyboardInterrupt):
            return


def _heard(task: "asyncio.Task[GateAnswer] | asyncio.Task[None]") -> None:
    """Look at what a task that nobody waits for has raised, so that the loop does not report it."""
    if not task.cancelled():
        task.exception()
