"""The boundary around an audit sink, which may hang, never end an abandoned batch, or raise `SystemExit`."""

import asyncio
from collections.abc import Sequence
from typing import Final

from sidecar.observability.audit.sinks import written
from sidecar.policy.audit import AuditEntry, AuditSink

CLOSE_SECONDS: Final = 5.0


class SinkStuck(Exception):
    """A sink has not ended an earlier batch, or has cancelled a batch itself."""


class BoundedSink:
    """Passes entries to a sink. A call that hangs can be abandoned.

    Args:
        name: of the sink, for operators.
        sink: is closed with this.
    """

    def __init__(self, name: str, sink: AuditSink) -> None:
        self._name = name
        self._sink = sink
        self._left: asyncio.Task[None] | None = None

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Pass entries to the sink. If this call is cancelled, it cancels the sink's task and does not wait for it.

        Raises:
            SinkStuck: an earlier abandoned batch still runs, or the sink has cancelled this one itself.
            Exception: whatever the sink raises.
        """
        if self._left is not None and not self._left.done():
            raise SinkStuck(f"audit sink {self._name} does not come back from an earlier batch")
        task = asyncio.get_running_loop().create_task(self._taken([written(entry) for entry in entries]))
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                self._left = task
                _let_go(task)
        if task.cancelled():
            raise SinkStuck(f"audit sink {self._name} gave a batch up by itself")
        task.result()

    async def close(self) -> None:
        """Close the sink within a time limit. Errors are ignored, because the process ends."""
        task = asyncio.get_running_loop().create_task(self._closed())
        await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        _let_go(task)

    async def _taken(self, entries: Sequence[AuditEntry]) -> None:
        try:
            await self._sink.take(entries)
        except (
            SystemExit,
            KeyboardInterrupt,
            GeneratorExit,
        ) as error:  # raised in a task, each of these would end the process
            raise SinkStuck(f"audit sink {self._name} raised {type(error).__name__}") from None

    async def _closed(self) -> None:
        try:
            await self._sink.close()
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            return


def _let_go(task: "asyncio.Task[None]") -> None:
    task.cancel()
    task.add_done_callback(_heard)


def _heard(task: "asyncio.Task[None]") -> None:
    """Retrieve the exception of an abandoned task, so that the event loop does not report it."""
    if not task.cancelled():
        task.exception()
