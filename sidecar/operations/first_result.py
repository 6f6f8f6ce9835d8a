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
    """Settled once, by whoever comes first.

    Most are never waited for: a future is made only for somebody who waits.
    """

    __slots__ = ("_decided", "_tell", "_timers")

    def __init__(self) -> None:
        self._decided: tuple[How] | None = None
        self._tell: list[Callable[[How], object]] = []
        self._timers: list[asyncio.TimerHandle] = []

    @property
    def settled(self) -> bool:
        """Whether it has been decided."""
        return self._decided is not None

    @property
    def how(self) -> How | None:
        """How it was decided; None while it is not."""
        return None if self._decided is None else self._decided[0]

    def settle(self, how: How) -> bool:
        """Decide it, unless it is decided, and tell who wants to know. Says whether this call did."""
        if self._decided is not None:
            return False
        self._decided = (how,)
        told, self._tell = self._tell, []
        for tell in told:
            tell(how)
        return True

    def settle_at(self, when: float, how: How) -> None:
        """Decide it at a time of the loop's clock, unless something else does before."""
        self._timers.append(asyncio.get_running_loop().call_at(when, self.settle, how))

    def on_settled(self, tell: Callable[[How], object]) -> None:
        """Call `tell` as soon as it is decided; now, if it already is."""
        if self._decided is None:
            self._tell.append(tell)
        else:
            tell(self._decided[0])

    async def wait(self) -> How:
        """Return how it was decided. Whoever stops waiting decides nothing."""
        if self._decided is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._tell.append(lambda _: _wake(waiter))
            await waiter
        if self._timers:
            self.drop_timers()
        assert self._decided is not None  # noqa: S101  for the type checker: nothing else ends the waiter
        return self._decided[0]

    def drop_timers(self) -> None:
        """Forget the timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():  # whoever waited may have been cancelled
        waiter.set_result(None)


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
