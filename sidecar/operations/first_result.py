"""Waits for the first of several events, without `asyncio.wait` and its sets, because a replay needs a fixed order.

The first event settles a `FirstResult`. No code here waits for work that ignores cancellation.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar, cast

from sidecar.operations.ports import Spawner

How = TypeVar("How")
Result = TypeVar("Result")


class FirstResult(Generic[How]):
    """A result that is settled once; the first caller of `settle` decides it.

    Most results are never waited for, so a future is created only for a waiter.

    Attributes:
        settled: whether the result is set.
        how: the result; None until it is set.
    """

    __slots__ = ("_tell", "how", "settled")

    def __init__(self) -> None:
        self.settled = False
        self.how: How | None = None
        self._tell: list[Callable[[How], object]] = []

    def settle(self, how: How) -> bool:
        """Decide it, unless it is decided, and tell who wants to know. Says whether this call did."""
        if self.settled:
            return False
        self.settled, self.how = True, how
        told, self._tell = self._tell, []
        for tell in told:
            tell(how)
        return True

    def on_settled(self, tell: Callable[[How], object]) -> None:
        """Call `tell` as soon as it is decided; now, if it already is."""
        if self.settled:
            tell(cast("How", self.how))
        else:
            self._tell.append(tell)

    async def wait(self) -> How:
        """Return the result. Cancelling a waiter does not settle it."""
        if not self.settled:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._tell.append(partial(_wake, waiter))
            await waiter
        how: Any = self.how
        decided: How = how
        return decided


def _wake(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():  # the waiter may have been cancelled
        waiter.set_result(None)


async def shield_until_done(spawner: Spawner, work: Coroutine[Any, Any, Result], name: str) -> Result:
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
