"""Reads the journal in order, as a list of changed turns, and keeps one row for each turn for the lists.

The projector lags behind the journal and never blocks it: a pass reads few facts, yields to all other work, and retries
errors later. Its position is stored with the rows, so that it continues from there after a restart.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.listing.changes import ChangedTurn, Changes, Watermarks
from sidecar.core.listing.turn_rows import TurnLineBuilder
from sidecar.operations.ports import Recorder
from sidecar.operations.record.ports import Journal, NotThisJournal
from sidecar.operations.record.projection_ports import Projection

FACTS_OF_A_PASS: Final = 100
"""The most facts that one pass reads."""
TURNS_IN_A_ROW: Final = 10
"""Rows that are derived before the loop yields to other tasks: well below a millisecond."""
TURNS_READ_AGAIN: Final = 50
"""Turns with erased texts that are read at a time."""
MOST_OPEN: Final = 1000
"""Open turns whose row is updated from new facts alone; for other turns all facts are read again."""


class ProjectorTiming(Struct, frozen=True):
    """The waits of the projector, in seconds.

    Attributes:
        gather: after an append, so that a turn with several facts in a row is derived once.
        between: two passes, so that a large backlog leaves time to dispatches.
        poll: the interval for facts that other sidecars append to a shared journal.
        again: the pause after a failure.
    """

    gather: float = 0.2
    between: float = 0.002
    poll: float = 5.0
    again: float = 1.0


TIMING: Final = ProjectorTiming()


class Projector:
    """Updates the lines of lists. One for each journal and process.

    Args:
        journal: where facts come from.
        projection: where lines go.
        recorder: informed when lines cannot be written, once for several failures in a row.
        timing: the waits.

    Attributes:
        lag: facts that were appended and are not in the lists, as far as this process knows.
        projected: number of projected facts.
    """

    def __init__(
        self,
        journal: Journal,
        projection: Projection,
        recorder: Recorder,
        timing: ProjectorTiming = TIMING,
    ) -> None:
        """Begin without anything to do."""
        self.journal, self.projection = journal, projection
        self._recorder = recorder
        self._timing = timing
        self._woken = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._unreadable: set[TurnId] = set()  # already reported
        self._open: OrderedDict[TurnId, TurnLineBuilder] = OrderedDict()
        """The lines of open turns, as of the stored watermarks."""
        self.lag = 0
        self.projected = 0

    def appended(self, facts: int) -> None:
        """Count facts that this process has appended, and wake the loop."""
        self.lag += facts
        self._woken.set()

    async def run(self) -> None:
        """Project existing facts, then appended ones, forever."""
        failing = False
        while True:
            # Cleared before the pass: an append during the pass sets the event again, and the loop continues without a
            # wait.
            self._woken.clear()
            try:
                await self.catch_up()
                failing = False
            except StoreUnavailable as why:
                if not failing:
                    self._recorder.anomaly("projection_waits", str(why))
                failing = True
                await asyncio.sleep(self._timing.again)
                continue
            await self._until_woken()
            await asyncio.sleep(self._timing.gather)

    async def _until_woken(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.poll if self.journal.shared else None):
                await self._woken.wait()

    async def catch_up(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Project until nothing is left. Raises `StoreUnavailable`.

        Args:
            progress: receives the numbers of projected and remaining facts.
        """
        while await self.step():
            if progress is not None:
                progress(self.projected, self.lag)
            await asyncio.sleep(self._timing.between)

    async def rebuild(self) -> None:
        """Remove all lines, so that they are derived again. Raises `StoreUnavailable`."""
        async with self._one_at_a_time:
            await self._forget()
        self._woken.set()

    async def _forget(self) -> None:
        # Both together: a cached line must not be continued beside an empty projection.
        self._open.clear()
        await self.projection.clear()

    async def step(self) -> bool:
        """Project at most one pass of facts; return whether any are left. Raises `StoreUnavailable`."""
        async with self._one_at_a_time:  # a list may ask for a step beside the loop
            # Several sidecars may share the work on one journal: each takes the sequences that are its own.
            sequences = await self.projection.mine()
            marks = await self.projection.watermarks()
            try:
                # The position comes from the projection and not from memory: another sidecar may have projected in
                # between, and a failed pass must be repeated.
                changes = await self.journal.changed(marks, FACTS_OF_A_PASS, sequences)
            except NotThisJournal as why:
                self._recorder.anomaly("projection_rebuilt", f"the lists were made of another journal: {why}")
                await self._forget()
                return True
            if changes.reached != marks:
                if changes.reached.alterations != marks.alterations:
                    await self._take_alterations(marks, changes)
                readings = await self.readings_of(changes.turns)
                await self.projection.apply([each.line() for each in readings], changes.reached)
                # After the write: if it fails, the cached lines still fit the stored watermarks.
                self._cache_open(readings)
            number = _facts(changes.reached) - _facts(marks)
            self.projected += max(number, 0)
            self.lag = changes.behind
            return changes.behind > 0

    async def _take_alterations(self, marks: Watermarks, changes: Changes) -> None:
        """Remove the turns that retention removed, and derive those again whose texts were erased."""
        # The order matters. Removed days first, then erased turns, and the new number of alterations last: after a
        # crash in between the next start repeats everything, because the number is still the old one.
        self._open.clear()  # the cached lines may contain erased texts
        days = sorted({marker.partition for marker in await self.journal.markers()})
        # A second removal of the same days changes nothing, so a repetition after a crash is safe.
        await self.projection.apply((), marks, days)
        erased = await self.journal.erased_turns()
        for start in range(0, len(erased), TURNS_READ_AGAIN):
            turn_ids = erased[start : start + TURNS_READ_AGAIN]
            # With all facts, also those after the watermarks. A later pass that reaches only some of these does not
            # replace the newer line.
            altered = [ChangedTurn(turn_id, 1, (await self.journal.facts(turn_id)).facts) for turn_id in turn_ids]
            readings = await self.readings_of([turn for turn in altered if turn.facts])
            await self.projection.apply([each.line() for each in readings], marks, gone=turn_ids)
        await self.projection.apply((), replace(marks, alterations=changes.reached.alterations))

    async def readings_of(self, turns: Sequence[ChangedTurn]) -> list[TurnLineBuilder]:
        """Return the lines of changed turns; an unreadable turn is omitted and reported once."""
        readings: list[TurnLineBuilder] = []
        for number, turn in enumerate(turns, 1):
            try:
                reading = await self._reading_of(turn)
            except UnreadableFact as why:
                # Once for each turn and process: the turn stays in the journal, and each new fact of it would report it
                # again.
                if turn.turn_id not in self._unreadable:
                    self._unreadable.add(turn.turn_id)
                    self._recorder.anomaly("turn_not_listed", str(why), {"turn_id": turn.turn_id})
            else:
                readings += () if reading is None else (reading,)
            if number % TURNS_IN_A_ROW == 0:
                await asyncio.sleep(0)
        return readings

    async def _reading_of(self, turn: ChangedTurn) -> TurnLineBuilder | None:
        """Continue the cached line of a turn, or read all its facts; None if the turn no longer exists."""
        facts, known = turn.facts, self._open.get(turn.turn_id)
        # The cached line may be continued only without a gap. If another sidecar projected facts of this turn in
        # between, the versions differ, and all facts are read again.
        if turn.first > 1 and known is not None and known.version == turn.first - 1:
            reading = known.copy()  # if the pass fails, the cached line must not contain its facts
        else:
            reading = TurnLineBuilder(turn.turn_id)
            if turn.first > 1:
                facts = (await self.journal.facts(turn.turn_id)).facts[: turn.version]
        for fact in facts:
            reading.take(fact)
        # Fewer facts than announced: retention removed them during the pass. The next pass learns of it.
        return reading if reading.version == turn.version else None

    def _cache_open(self, readings: Sequence[TurnLineBuilder]) -> None:
        for reading in readings:
            self._open.pop(reading.turn_id, None)
            if not reading.ended:
                self._open[reading.turn_id] = reading
        # The least recently changed turn first; if it changes again, all of its facts are read.
        while len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)


def _facts(marks: Watermarks) -> int:
    """Return the number of facts up to a position, over all instances."""
    return sum(reached.number for reached in marks.reached.values())
