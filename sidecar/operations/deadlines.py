"""The deadlines of one piece of work, with one timer of the loop for the earliest of them."""

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

import msgspec

Result = TypeVar("Result")


class Deadline(msgspec.Struct):
    """One of them.

    Attributes:
        due: called with `given` when it has come; None once it has, or is cancelled.
    """

    due: Callable[..., object] | None
    given: tuple[Any, ...]

    def cancel(self) -> None:
        """Forget it. Whatever it would have kept alive can go."""
        self.due, self.given = None, ()


class Deadlines:
    """What comes due when.

    A cancelled one keeps its place until its time or that of an earlier one comes: most are cancelled, few come due.
    """

    __slots__ = ("_made", "_queue", "_timer", "_timer_at")

    def __init__(self) -> None:
        """Begin with none, and without a timer."""
        self._queue: list[tuple[float, int, Deadline]] = []
        self._made = 0
        self._timer: asyncio.Handle | None = None
        # Kept here, because uvloop returns a handle without a time for a timer that is due within half a millisecond.
        self._timer_at = 0.0

    def at(self, when: float, due: Callable[..., object], *given: Any) -> Deadline:
        """Call `due` at a time of the loop's clock; those of the same time in the order of their making."""
        deadline = Deadline(due, given)
        self._made += 1
        heappush(self._queue, (when, self._made, deadline))
        if self._timer is None or when < self._timer_at:
            self._arm()
        return deadline

    def cancel_all(self) -> None:
        """Forget all of them."""
        self._queue.clear()
        self._arm()

    def _arm(self) -> None:
        """Have one timer for the earliest, or none."""
        while self._queue and self._queue[0][2].due is None:
            heappop(self._queue)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue:
            self._timer_at = self._queue[0][0]
            self._timer = asyncio.get_running_loop().call_at(self._timer_at, self._call_due)

    def _call_due(self) -> None:
        """Call what is due; what one of them raises is the loop's to report, and keeps none of the others."""
        loop, timer = asyncio.get_running_loop(), self._timer
        # The loop calls up to a tick of its clock before the time.
        now = loop.time() if timer is None else max(loop.time(), self._timer_at)
        try:
            while self._queue and self._queue[0][0] <= now:
                _, _, deadline = heappop(self._queue)
                due, given = deadline.due, deadline.given
                if due is not None:
                    deadline.cancel()
                    due(*given)
        finally:
            self._arm()


class Cancellable(Protocol):
    """A timer of the loop, or a deadline."""

    def cancel(self) -> None:
        """Forget it."""


async def deadline_at(
    when: float, work: Awaitable[Result], at: Callable[[float, Callable[[], None]], Cancellable]
) -> Result:
    """Return what `work` returns, as `asyncio.timeout_at` would, with whatever timer `at` makes.

    Raises:
        TimeoutError: it took longer. Whatever `work` raises.
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
        if late and task.uncancel() <= before:
            raise TimeoutError from None
        raise
    finally:
        limit.cancel()
