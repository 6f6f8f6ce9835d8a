"""The rows of lists in memory, for a journal in memory.

The record in memory uses it. It follows the same rules as the tables in databases, so that tests of lists hold for
both.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import Watermarks
from sidecar.core.listing.turn_rows import Newer, TurnLine, episode_rows, listed, use_of, with_newer


class RowsInMemory:
    """The projection port, in memory.

    Args:
        is_kept: returns whether the journal still has a turn; a journal in memory drops old turns.

    Attributes:
        lines: by turn; the journal may remove those of dropped turns.
    """

    def __init__(self, is_kept: Callable[[TurnId], bool] = lambda turn_id: True) -> None:
        """Begin without rows."""
        self.lines: dict[TurnId, TurnLine] = {}
        self._is_kept = is_kept
        self._reached = Watermarks()

    async def mine(self) -> None:
        """Return None: this process projects everything."""

    async def watermarks(self) -> Watermarks:
        """Return the position up to which the journal was projected."""
        return self._reached

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Store lines, and the position that was reached with them.

        Args:
            lines: one for each changed turn.
            reached: the new position in the journal.
            days: days whose turns retention removed.
            gone: turns whose lines are dropped, because they are derived again.
        """
        if days:
            self.lines = {turn_id: line for turn_id, line in self.lines.items() if line.day not in days}
        for turn_id in gone:
            self.lines.pop(turn_id, None)
        for line in lines:
            stored = self.lines.get(line.turn_id)
            # A list may have projected newer facts beside the loop; an older line must not replace them.
            if (stored is None or stored.version <= line.version) and self._is_kept(line.turn_id):
                self.lines[line.turn_id] = line
        self._reached = reached  # no await above, so lines and position change together

    async def clear(self) -> None:
        """Remove everything, the position included, so that the journal is projected from its beginning."""
        self.lines.clear()
        self._reached = Watermarks()

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return the numbers of facts that the lines were derived from."""
        return {turn_id: self.lines[turn_id].version for turn_id in turn_ids if turn_id in self.lines}

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return listed(self._rows(), newer, query)

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return episode_rows(map(use_of, with_newer(self._rows(), newer)), limit, before)

    def _rows(self) -> list[TurnRow]:
        return [line.row for line in self.lines.values() if line.row is not None]
