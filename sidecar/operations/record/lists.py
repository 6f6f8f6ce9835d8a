"""Lists of turns and episodes: the projected rows, and the changes since the projection.

A list reads the watermarks first, then the changes after them, then the rows. It therefore contains everything that
was acknowledged before the list was requested; rows that are written in between belong to turns that are also among
the changes. If there are too many changes for one list, the list carries the time up to which it is complete.
"""

from datetime import datetime
from typing import Final

from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, ListPage, TurnQuery, TurnRow
from sidecar.core.listing.turn_rows import Newer
from sidecar.operations.ports import Recorder
from sidecar.operations.record.ports import Journal, NotThisJournal
from sidecar.operations.record.projector import Projector

MOST_CHANGES: Final = 600
"""The most facts after the watermarks that one list reads: those of about 200 turns."""


class TurnListReader:
    """Reads lists.

    Args:
        projector: of the journal.
        at_once: project all changes whenever a list is requested. A journal whose appends do not wait needs no
            projection loop then, and costs nothing while no list is requested.
        most_changes: the most facts after the watermarks that are read for a list.

    Attributes:
        behind: number of lists that were incomplete.
    """

    def __init__(self, projector: Projector, *, at_once: bool = False, most_changes: int = MOST_CHANGES) -> None:
        self._projector = projector
        self._at_once = at_once
        self._most = most_changes
        self.behind = 0

    def appended(self, facts: int) -> None:
        """Tell the projector how many facts this process has appended."""
        self._projector.appended(facts)

    async def turns(self, query: TurnQuery) -> ListPage[TurnRow]:
        """Return a list of turns, newest first. Raises `StoreUnavailable`."""
        newer, as_of = await self._newer()
        return ListPage(tuple(await self._projector.projection.turns(query, newer)), as_of)

    async def episodes(self, limit: int, before: EpisodeMark | None = None) -> ListPage[EpisodeRow]:
        """Return the episodes used last, newest first. Raises `StoreUnavailable`."""
        newer, as_of = await self._newer()
        return ListPage(tuple(await self._projector.projection.episodes(limit, newer, before)), as_of)

    async def _newer(self) -> tuple[Newer, datetime | None]:
        """Return the rows that are not projected yet, and the time up to which the list is complete (None: now)."""
        if self._at_once:
            await self._projector.catch_up()
        journal, projection = self._projector.journal, self._projector.projection
        # The order of these reads matters: watermarks, changes, rows. In any other order a turn that is projected
        # between two reads would be in neither of them.
        marks = await projection.watermarks()
        try:
            changes = await journal.changed(marks, self._most)
            is_altered = changes.reached.alterations != marks.alterations
        except NotThisJournal:
            is_altered = True
        # A second read instead of a repair: the projector knows how to take removals and erasures into account.
        if is_altered:  # rare: rows may belong to removed turns, or contain the ids of erased users
            await self._projector.step()
            changes = await journal.changed(await projection.watermarks(), self._most)
        lines = {each.turn_id: each.line() for each in await self._projector.readings_of(changes.turns)}
        versions = await projection.versions(list(lines)) if lines else {}
        # If several sidecars append to a turn, its row may already contain later facts than the changes that were read
        # here. The row with more facts counts.
        newer = {turn_id: line.row for turn_id, line in lines.items() if versions.get(turn_id, 0) <= line.version}
        # Counted, not raised: a list for an operator may be incomplete, with its `as_of`. Decisions use
        # `complete_turns`.
        self.behind += changes.behind > 0
        return newer, changes.as_of


def lists_in_memory(journal: Journal, recorder: Recorder) -> TurnListReader:
    """Return lists that project all changes whenever one is requested."""
    from sidecar.operations.record.rows_in_memory import RowsInMemory  # noqa: PLC0415  most callers pass their own lists

    return TurnListReader(Projector(journal, RowsInMemory(), recorder), at_once=True)
