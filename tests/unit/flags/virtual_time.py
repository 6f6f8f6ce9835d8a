"""An event loop whose time jumps to the next timer, so that hours pass in no time and always in the same way."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class _JumpingSelector(selectors.SelectSelector):
    """Moves the time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing is left that could ever happen")
        if not ready and timeout:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the virtual seconds."""
        return self._jumping.now


class LoopClock:
    """The port `Clock` over the running loop."""

    def now(self) -> datetime:
        """Return a date that moves with the loop."""
        return BEGIN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
