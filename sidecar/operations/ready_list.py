"""What is ready to be done next for the calls of a dispatch: one drain does all of it together."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

import msgspec

from sidecar.core.errors import RecordConflict, StoreUnavailable
from sidecar.core.identifiers import CallId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.making.settling import SettledCall

Refusal: TypeAlias = StoreUnavailable | RecordConflict | None
"""Why something is not on record; None: it is."""
Continuation: TypeAlias = Callable[[Refusal, datetime], None]
"""What is done once something is on record, or is refused; told when that is. Does not wait."""


class LaidOut(msgspec.Struct, frozen=True):
    """What has to be on record first, and what is done then.

    Attributes:
        opening: what is about to begin. If it is not confirmed, it does not: nobody appends it again.
        happened: what has happened in any case. It is appended again until it is confirmed.
        settled: an outcome, which becomes one fact with others that settle at the same time; has happened, too.
    """

    go_on: Continuation
    opening: Draft | None = None
    happened: Draft | None = None
    settled: SettledCall | None = None


class Step(msgspec.Struct, frozen=True):
    """What comes next for one call.

    Attributes:
        lay_out: called once, when it is taken; told when that is. Does not wait.
    """

    call_id: CallId
    lay_out: Callable[[datetime], LaidOut]


class ReadyList:
    """Steps in the order in which they became ready. Any number put them; who takes them is busy with them for a while.

    Attributes:
        attended: somebody waits for the next steps, or is about to take them.
        imminent: there are steps, and they are about to be taken.
        closed: nothing more is to be done.
    """

    __slots__ = ("_relieve", "_steps", "_taker", "attended", "closed", "imminent")

    def __init__(self) -> None:
        """Begin with nothing to do, and with somebody who is about to take."""
        self._steps: list[Step] = []
        self._taker: asyncio.Future[None] | None = None
        self._relieve: Callable[[], object] = _nothing
        self.attended, self.imminent, self.closed = True, False, False

    def put(self, step: Step) -> None:
        """Have a step done next; does not wait."""
        self._steps.append(step)
        if self._taker is not None:
            self._wake()
        elif not (self.attended or self.closed):
            self.attended = self.imminent = True
            self._relieve()

    async def take(self, relieve: Callable[[], object]) -> list[Step]:
        """Return everything that is ready; waits until something is, or the list is closed.

        What becomes ready while the caller is busy with it must not wait for that: `relieve` is called then, and has to
        see to it that somebody else takes.
        """
        self.attended = True
        if not self._steps and not self.closed:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        self.attended, self.imminent, self._relieve = False, False, _nothing if self.closed else relieve
        taken, self._steps = self._steps, []
        return taken

    def close(self) -> None:
        """Nothing more is to be done: nobody has to wait for it."""
        self.closed = True
        self._relieve = _nothing  # it leads back to the dispatch, which is to be freed without the garbage collector
        if self._taker is not None:
            self._wake()

    def _wake(self) -> None:
        taker, self._taker = self._taker, None
        if taker is not None and not taker.done():  # who takes may have been cancelled
            taker.set_result(None)
            self.imminent = True


def _nothing() -> None:
    """Do nothing: the steps are about to be taken, or none is to be done any more."""
