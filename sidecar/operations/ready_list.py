"""The list of ready steps for the calls of a dispatch. The loop `drain` takes all of them together.

A step is one append and the work after it: start a child, record an outcome. Calls put their steps here, and
`turn/child/drain` appends the facts of all steps at once, so a fan-out of 64 calls costs a few appends and
not 64.
"""

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
"""Why a fact is not on record; None: it is."""
Continuation: TypeAlias = Callable[[Refusal, datetime], None]
"""Called when facts are recorded or refused, with the time. Does not wait."""


class LaidOut(msgspec.Struct, frozen=True):
    """A step that was taken: the facts that must be recorded first, and the work that follows.

    Attributes:
        opening: facts of work that is about to begin. Without confirmation the work does not begin, and the facts are
            not appended again.
        happened: facts of events that have happened already. They are appended again until confirmed.
        settled: an outcome that has happened already; outcomes that settle at the same time share one fact.
    """

    resume: Continuation
    opening: Draft | None = None
    happened: Draft | None = None
    settled: SettledCall | None = None


class Step(msgspec.Struct, frozen=True):
    """The next step of one call.

    Attributes:
        lay_out: returns the facts and the work. Called once, when the step is taken, with the time. Does not wait.
    """

    call_id: CallId
    lay_out: Callable[[datetime], LaidOut]


class ReadyList:
    """A queue of steps in the order in which they became ready; many producers, and consumers that take all at once.

    Attributes:
        attended: a consumer waits for the next steps, or is about to take them.
        imminent: as `attended`, but there are steps, and the consumer is already awake.
        closed: no more steps will be taken.
    """

    __slots__ = ("_relieve", "_steps", "_taker", "attended", "closed", "imminent")

    def __init__(self) -> None:
        """Start empty, with a consumer that is about to take."""
        self._steps: list[Step] = []
        self._taker: asyncio.Future[None] | None = None
        self._relieve: Callable[[], object] = _nothing
        # A drain is started together with the list, so steps that are put before it runs must not start another one.
        self.attended, self.imminent, self.closed = True, False, False

    def put(self, step: Step) -> None:
        """Add a step. Does not wait."""
        self._steps.append(step)
        if self._taker is not None:
            self._wake()
        # The consumer is busy with earlier steps, e.g. it waits for an append. Another consumer is started at once: a
        # hanging append must not delay calls that became ready in the meantime.
        elif not (self.attended or self.closed):
            self.attended = self.imminent = True
            self._relieve()

    async def take(self, relieve: Callable[[], object]) -> list[Step]:
        """Return all ready steps; wait until there is one or the list is closed.

        Steps that become ready while the caller works must not wait for it: `relieve` is called for them and must start
        another consumer.
        """
        self.attended = True
        if not self._steps and not self.closed:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        # From here on the taken steps belong to the caller. `relieve` is set before any await, so a step that becomes
        # ready during the caller's work always finds a consumer.
        self.attended, self.imminent, self._relieve = False, False, _nothing if self.closed else relieve
        taken, self._steps = self._steps, []
        return taken

    def close(self) -> None:
        """Close the list: its consumers stop waiting."""
        self.closed = True
        self._relieve = _nothing  # breaks the reference cycle with the dispatch, so that it is freed at once
        if self._taker is not None:
            self._wake()

    def _wake(self) -> None:
        taker, self._taker = self._taker, None
        if taker is not None and not taker.done():  # the consumer may have been cancelled
            taker.set_result(None)
            self.imminent = True


def _nothing() -> None:
    """Do nothing: a consumer is about to take the steps, or the list is closed."""
