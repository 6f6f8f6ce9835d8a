"""Waiting for the first of several things, without `asyncio.wait` and its sets: replay needs a fixed order.

An `Ending` is one future that the first event settles; timers and stops are the others. Nothing here ever waits for
work that ignores cancellation.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from sidecar.operations.ports import Spawner

How = TypeVar("How")
Result = TypeVar("Result")


class Ending(Generic[How]):
    """Settled once, by whoever comes first."""

    def __init__(self) -> None:
        """Must be made inside a running loop."""
        self._future: asyncio.Future[How] = asyncio.get_running_loop().create_future()
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def settled(self) -> bool:
        """Whether it has been decided."""
        return self._future.done()

    @property
    def how(self) -> How | None:
        """How it was decided; None while it is not."""
        return self._future.result() if self._future.done() else None

    def settle(self, how: How) -> bool:
        """Decide it, unless it is decided. Says whether this call did."""
        if self._future.done():
            return False
        self._future.set_result(how)
        return True

    def settle_at(self, when: float, how: How) -> None:
        """Decide it at a time of the loop's clock, unless something else does before."""
        self._timers.append(asyncio.get_running_loop().call_at(when, self.settle, how))

    def on_settled(self, tell: Callable[[How], object]) -> None:
        """Call `tell` once it is decided; soon, if it already is."""
        self._future.add_done_callback(lambda future: tell(future.result()))

    async def wait(self) -> How:
        """Return how it was decided."""
        try:
            return await asyncio.shield(self._future)
        finally:
            if self._future.done():
                self.drop_timers()

    def drop_timers(self) -> None:
        """Forget the timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


async def outlive(spawner: Spawner, work: Coroutine[Any, Any, Result], name: str) -> Result:
    """Run `work` to its end even if the caller is cancelled meanwhile; return or raise what it does."""
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def carry_out() -> None:
        try:
            result = await work
        except BaseException as error:
            if not future.done():
                future.set_exception(error if isinstance(error, Exception) else RuntimeError("stopped"))
                future.exception()  # marks it as seen: the waiter may have left
            if not isinstance(error, Exception):
                raise
        else:
            if not future.done():
                future.set_result(result)

    spawner.spawn(carry_out(), name)
    return await asyncio.shield(future)
