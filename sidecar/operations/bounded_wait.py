"""Awaits a value that is usually ready; starts a timer only when it is not.

A timer costs more than most lookups in memory, and a bind finds most of its values in memory.
"""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

Found = TypeVar("Found")


async def await_with_limit(seconds: float, work: Awaitable[Found]) -> Found:
    """Return the result of `work`, in at most `seconds`.

    Raises:
        TimeoutError: `work` took longer. Other exceptions are those of `work`.
    """
    # The first step runs without a timer. If the value is ready, the work ends in this step. Only if it waits for a
    # future is a timer started, and the rest of the work awaited below.
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as end:
        found: Found = end.value
        return found
    async with asyncio.timeout(seconds):
        rest: Found = await _Rest(steps, waits_for)
        return rest


class _Rest:
    """Work that has begun to wait; it receives the values and exceptions of its awaiter."""

    def __init__(self, steps: Generator[Any, Any, Any], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        # Like `yield from`, which cannot be used here: the first value of the work has been taken from it already.
        steps = self._steps
        while True:
            try:
                try:
                    sent = yield self._waits_for
                except BaseException as error:  # noqa: BLE001  the work must also see a cancellation
                    self._waits_for = steps.throw(error)
                else:
                    self._waits_for = steps.send(sent)
            except StopIteration as end:
                return end.value
