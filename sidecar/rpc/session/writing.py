"""Writes to a session lane in one task. Everything that is queued during a write leaves in the next message."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from sidecar.core.session.outgoing import OutgoingQueue
from sidecar.operations.ports import Clock


class LaneWriter:
    """Writes the queued results until the lane ends or fails.

    Args:
        write: sends one message; returns when gRPC has accepted it.
        outgoing: the queue.
        clock: measures how long a write is blocked.

    Attributes:
        failure: the error with which the lane ends; None while the lane runs, or if the client ends it.
        over: whether nothing more may be queued. Queued messages are still sent.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[None]], outgoing: OutgoingQueue, clock: Clock) -> None:
        self._write, self._outgoing, self._clock = write, outgoing, clock
        self._wake = asyncio.Event()
        self._woken = False
        self._written: asyncio.Event | None = None
        self._task: asyncio.Task[Any] | None = None
        self._writing_since: float | None = None
        self._sent_at = clock.monotonic()
        self.failure: Exception | None = None
        self.over = False

    async def run(self) -> None:
        """Write until the lane ends, in the calling task.

        Raises:
            Exception: the failure.
            asyncio.CancelledError: gRPC has cancelled the call, because the client is gone.
        """
        self._task = asyncio.current_task()
        try:
            await self._run()
        except asyncio.CancelledError:
            if self.failure is None or self._task is None:
                raise
            # The cancellation came from `give_up`, not from gRPC. Without `uncancel` the task would count as cancelled,
            # and gRPC would send CANCELLED instead of the failure's status.
            self._task.uncancel()
        if self.failure is not None:
            raise self.failure

    async def _run(self) -> None:
        outgoing = self._outgoing
        while not self._failed:
            while outgoing.ready and not self._failed:
                # Messages are taken as late as possible. Everything that is queued while a write is blocked leaves in
                # the next message, so a slow client gets fewer and larger messages.
                self._writing_since = self._clock.monotonic()
                await self._write(outgoing.take())
                self._writing_since = None
                self._sent_at = self._clock.monotonic()
                if self._written is not None:
                    self._written.set()
            if self.over:
                return
            # `_woken` is reset together with the event: between the two lines no other code can run, so no wake-up is
            # lost.
            await self._wake.wait()
            self._wake.clear()
            self._woken = False

    @property
    def _failed(self) -> bool:
        return self.failure is not None

    def wake(self) -> None:
        """Wake the writer: a message was queued, or the lane is over."""
        # A flag beside the event: most calls come while the writer is awake, and the flag is cheaper than `Event.set`.
        if not self._woken:
            self._woken = True
            self._wake.set()

    async def written(self) -> None:
        """Return once the client has taken another message."""
        # A new event for each wait: a write that ended before this call must not satisfy it.
        self._written = asyncio.Event()
        await self._written.wait()
        self._written = None

    def tell(self, message: bytes) -> None:
        """Queue a message of the lane itself."""
        self._outgoing.tell(message)
        self.wake()

    def fail(self, error: Exception) -> None:
        """End the lane after the present write: only then can the client receive the reason."""
        # The first error is the cause; later ones, such as those of a broken stream, follow from it.
        self.failure = self.failure or error
        self.wake()

    def give_up(self, error: Exception) -> None:
        """End the lane although the client does not take the present message."""
        self.fail(error)
        if self._task is not None:
            self._task.cancel()

    def blocked_for(self) -> float:
        """Return for how many seconds the client has not taken a message; 0: it takes all."""
        return 0.0 if self._writing_since is None else self._clock.monotonic() - self._writing_since

    def quiet_for(self) -> float:
        """Return for how many seconds nothing was sent; 0 while something is."""
        return 0.0 if self._writing_since is not None else self._clock.monotonic() - self._sent_at
