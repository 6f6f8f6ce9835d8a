"""Who listens to a dispatch, and what wakes them."""

import asyncio


class Listeners:
    """The listeners of one dispatch, by number."""

    def __init__(self) -> None:
        """Begin with none."""
        self._wakers: dict[int, asyncio.Event] = {}
        self._next = 0

    def __bool__(self) -> bool:
        """Say whether anybody listens."""
        return bool(self._wakers)

    def add(self) -> tuple[int, asyncio.Event]:
        """Add a listener; returns its number and what wakes it."""
        self._next += 1
        self._wakers[self._next] = asyncio.Event()
        return self._next, self._wakers[self._next]

    def remove(self, number: int | None) -> None:
        """Remove a listener, if there is one of that number."""
        if number is not None:
            self._wakers.pop(number, None)

    def wake(self) -> None:
        """Wake all of them."""
        for waker in self._wakers.values():
            waker.set()
