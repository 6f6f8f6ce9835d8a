"""Protects the process from an audit sink, i.e. a plugin that receives audit events.

A sink may hang, may ignore its cancellation, and may raise `SystemExit`.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from sidecar.observability.audit.sinks import written
from sidecar.policy.audit import AuditEntry, AuditSink

CLOSE_SECONDS: Final = 5.0
"""Seconds that a sink gets to close. The process then ends without it."""


class SinkStuck(Exception):
    """A sink has not ended an earlier batch, or has cancelled a batch itself."""


class BoundedSink:
    """Passes entries to a sink. A call that hangs can be abandoned.

    Args:
        name: of the sink, for messages to operators.
        sink: the plugin's object; `close` closes it.
    """

    def __init__(self, name: str, sink: AuditSink) -> None:
        self._name = name
        self._sink = sink
        # The last batch that was abandoned; it may still run.
        self._abandoned: asyncio.Task[None] | None = None

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Pass entries to the sink. If this call is cancelled, it cancels the sink's task and does not wait for it.

        Raises:
            SinkStuck: an earlier abandoned batch still runs, or the sink has cancelled this one itself.
            Exception: whatever the sink raises.
        """
        # One batch at a time: a sink that hangs would otherwise collect one task for each attempt.
        if self._abandoned is not None and not self._abandoned.done():
            raise SinkStuck(f"audit sink {self._name} does not come back from an earlier batch")
        # A task of its own, because a cancellation of this call must not have to wait until the sink obeys.
        task = asyncio.get_running_loop().create_task(self._pass_on([written(entry) for entry in entries]))
        try:
            # `wait` returns when the task ends, whatever ends it; awaiting the task would raise its exceptions here.
            await asyncio.wait((task,))
        finally:
            if not task.done():
                self._abandoned = task
                _abandon(task)
        # A cancellation of this call would have ended it above. So the sink cancelled its own task, and the batch may
        # be lost.
        if task.cancelled():
            raise SinkStuck(f"audit sink {self._name} gave a batch up by itself")
        # Raises what the sink raised.
        task.result()

    async def close(self) -> None:
        """Close the sink within a time limit. Errors are ignored, because the process ends."""
        # In a task of its own, so that a sink that ignores its cancellation does not hold up the end.
        task = asyncio.get_running_loop().create_task(self._close_sink())
        await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        _abandon(task)

    async def _pass_on(self, entries: Sequence[AuditEntry]) -> None:
        try:
            await self._sink.take(entries)
        # Raised in a task, each of these would end the process.
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            raise SinkStuck(f"audit sink {self._name} raised {type(error).__name__}") from None

    async def _close_sink(self) -> None:
        try:
            await self._sink.close()
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            return


def _abandon(task: "asyncio.Task[None]") -> None:
    """Cancel a task without waiting for it."""
    task.cancel()
    task.add_done_callback(_retrieve_error)


def _retrieve_error(task: "asyncio.Task[None]") -> None:
    """Retrieve the exception of an abandoned task, so that the event loop does not report it."""
    if not task.cancelled():
        task.exception()
