"""The deadlines of one piece of work, which share one timer of the event loop.

A dispatch sets several deadlines for each call, and most are cancelled. One timer for all of them is cheaper than a
timer of the event loop for each. It also determines the order of deadlines that are due at the same moment, which a
replay needs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

import msgspec

Result = TypeVar("Result")


class Deadline(msgspec.Struct):
    """One deadline.

    Attributes:
        due: called with `given` at the deadline; None once it was called or cancelled.
    """

    due: Callable[..., object] | None
    given: tuple[Any, ...]

    def cancel(self) -> None:
        """Cancel the deadline, and drop the references that it holds."""
        self.due, self.given = None, ()


class Deadlines:
    """A queue of deadlines.

    A cancelled deadline keeps its entry until it is the first of the queue, where `_arm` drops it: most are cancelled,
    and removing an entry from the middle of the heap would cost more than keeping it.
    """

    __slots__ = ("_made", "_queue", "_timer", "_timer_at")

    def __init__(self) -> None:
        """Begin without deadlines and without a timer."""
        self._queue: list[tuple[float, int, Deadline]] = []
        self._made = 0
        self._timer: asyncio.Handle | None = None
        # Kept here, because uvloop returns a handle without a time for a timer that is due within half a millisecond.
        self._timer_at = 0.0

    def at(self, when: float, due: Callable[..., object], *given: Any) -> Deadline:
        """Call `due` at a time of the event loop's clock.

        Deadlines of the same time are called in the order of creation.
        """
        deadline = Deadline(due, given)
        self._made += 1
        # The running number decides between equal times, so that two deadlines are never compared themselves.
        heappush(self._queue, (when, self._made, deadline))
        if self._timer is None or when < self._timer_at:
            self._arm()
        return deadline

    def cancel_all(self) -> None:
        """Cancel all deadlines."""
        # The entries hold the dispatch; `_arm` finds none and removes the timer, too.
        self._queue.clear()
        self._arm()

    def _arm(self) -> None:
        """Set the timer to the earliest deadline, or remove it."""
        while self._queue and self._queue[0][2].due is None:
            heappop(self._queue)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue:
            self._timer_at = self._queue[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._timer_at, self._call_due)

    def _call_due(self) -> None:
        """Call the deadlines that are due.

        An exception goes to the event loop's handler and does not prevent the others.
        """
        loop, timer = asyncio.get_running_loop(), self._timer
        # The loop may call a timer up to one tick of its clock too early. The deadline counts as due nevertheless:
        # otherwise the timer would be set again for a moment that has practically come.
        now = loop.time() if timer is None else max(loop.time(), self._timer_at)
        try:
            while self._queue and self._queue[0][0] <= now:
                _, _, deadline = heappop(self._queue)
                # Taken out before the call: `due` may cancel this deadline or add others.
                due, given = deadline.due, deadline.given
                if due is not None:
                    deadline.cancel()
                    due(*given)
        finally:
            self._arm()


class Cancellable(Protocol):
    """A timer of the event loop, or a deadline."""

    def cancel(self) -> None:
        """Cancel the timer."""


async def deadline_at(
    when: float, work: Awaitable[Result], at: Callable[[float, Callable[[], None]], Cancellable]
) -> Result:
    """Return the result of `work`, like `asyncio.timeout_at` but with a timer of the caller's choice.

    Args:
        when: the deadline, by the event loop's clock.
        work: the work.
        at: sets a timer.

    Raises:
        TimeoutError: `work` took longer. Other exceptions are those of `work`.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  for the type checker: only tasks await
    before, late = task.cancelling(), False

    def stop() -> None:
        nonlocal late
        late = True
        task.cancel()

    limit = at(when, stop)
    try:
        return await work
    except asyncio.CancelledError:
        # Only the cancellation made by `stop` becomes a timeout. If the task was also cancelled from elsewhere, the
        # count stays above `before` and the cancellation continues.
        if late and task.uncancel() <= before:
            raise TimeoutError from None
        raise
    finally:
        limit.cancel()
