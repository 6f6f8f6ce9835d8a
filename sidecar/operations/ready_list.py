"""What is ready to be done next for the calls of a dispatch: one drain does all of it together."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.executing.records import Record
from sidecar.core.identifiers import CallId

Refusal: TypeAlias = StoreUnavailable | RecordConflict | None
"""Why something is not on record; None: it is."""
LaidOut: TypeAlias = tuple[Sequence[Record], Callable[[Refusal], None]]
"""What has to be on record first, and what is done then, or if it is refused."""


class Step(msgspec.Struct, frozen=True):
    """What comes next for one call.

    Attributes:
        lay_out: called once, when it is taken. Does not wait, nor does what it returns.
    """

    call_id: CallId
    lay_out: Callable[[], LaidOut]


class ReadyList:
    """Steps in the order in which they became ready. Several put, one takes.

    Attributes:
        imminent: whoever takes has been woken, and is about to.
    """

    __slots__ = ("_steps", "_taker", "imminent")

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._steps: list[Step] = []
        self._taker: asyncio.Future[None] | None = None
        self.imminent = False

    def put(self, step: Step) -> None:
        """Have a step done next; does not wait."""
        self._steps.append(step)
        if self._taker is not None:
            if not self._taker.done():  # who takes may have been cancelled
                self._taker.set_result(None)
                self.imminent = True
            self._taker = None

    async def take(self) -> list[Step]:
        """Return everything that is ready; waits until something is."""
        if not self._steps:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        self.imminent = False
        taken, self._steps = self._steps, []
        return taken
