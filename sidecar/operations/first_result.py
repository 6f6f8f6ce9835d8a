"""Waits for the first of several events, without `asyncio.wait` and its sets, because a replay needs a fixed order.

The first event settles a `FirstResult`. No code here waits for work that ignores cancellation.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar, cast

from sidecar.operations.ports import Spawner

# What a `FirstResult` is settled with: usually the way in which something ended.
How = TypeVar("How")
Result = TypeVar("Result")


class FirstResult(Generic[How]):
    """A result that is settled once; the first call of `settle` determines it.

    Most results are never waited for, so a future is created only for a waiter.

    Attributes:
        settled: whether the result is set.
        how: the result; None until it is set.
    """

    __slots__ = ("_callbacks", "how", "settled")

    def __init__(self) -> None:
        self.settled = False
        self.how: How | None = None
        self._callbacks: list[Callable[[How], object]] = []

    def settle(self, how: How) -> bool:
        """Set the result unless it is set, and call the callbacks. Return whether this call set it."""
        if self.settled:
            return False
        self.settled, self.how = True, how
        # Taken out before they are called: a callback may register another one, which then runs immediately, or may
        # hold this object, which must not hold the callback any longer.
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(how)
        return True

    def on_settled(self, callback: Callable[[How], object]) -> None:
        """Call `callback` as soon as the result is set; immediately if it is set already."""
        if self.settled:
            callback(cast("How", self.how))
        else:
            self._callbacks.append(callback)

    async def wait(self) -> How:
        """Return the result. Cancelling a waiter does not settle the result."""
        if not self.settled:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._callbacks.append(partial(_wake, waiter))
            await waiter
        # Read from the attribute and not from the future: the waiter wakes in a later pass of the event loop, and `how`
        # never changes once it is set.
        # By way of `Any`, because mypy cannot know that `how` is set; `cast` would be one more call for each child.
        how: Any = self.how
        decided: How = how
        return decided


def _wake(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():  # the waiter may have been cancelled
        waiter.set_result(None)


async def shield_until_done(spawner: Spawner, work: Coroutine[Any, Any, Result], name: str) -> Result:
    """Run `work` to its end even if the caller is cancelled; return its result or raise its exception."""
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            result = await work
        except BaseException as error:
            if not future.done():
                # A waiter gets an ordinary error: a `SystemExit` or a cancellation of the task is not the waiter's.
                future.set_exception(error if isinstance(error, Exception) else RuntimeError("stopped"))
                future.exception()  # marks the exception as retrieved: the waiter may be gone
            if not isinstance(error, Exception):
                raise
        else:
            if not future.done():
                future.set_result(result)

    # The spawner and not the caller owns the task: a stopping process waits for it, and a cancelled caller does not
    # cancel it.
    spawner.spawn(run(), name)
    return await asyncio.shield(future)
