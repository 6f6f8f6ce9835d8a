"""The rows of lists in memory, for a journal in memory."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import Watermarks
from sidecar.core.listing.turn_rows import Newer, TurnLine, episode_rows, listed, use_of, with_newer


class RowsInMemory:
    """The projection port.

    Args:
        is_kept: says whether a turn is in the journal still; one that keeps the newest turns only forgets others.

    Attributes:
        lines: of turns; the journal may take out what it forgets.
    """

    def __init__(self, is_kept: Callable[[TurnId], bool] = lambda turn_id: True) -> None:
        """Begin without rows."""
        self.lines: dict[TurnId, TurnLine] = {}
        self._is_kept = is_kept
        self._reached = Watermarks()

    async def mine(self) -> None:
        """Leave nothing to others."""

    async def watermarks(self) -> Watermarks:
        """Return up to where the journal was projected."""
        return self._reached

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Keep lines."""
        if days:
            self.lines = {turn_id: line for turn_id, line in self.lines.items() if line.day not in days}
        for turn_id in gone:
            self.lines.pop(turn_id, None)
        for line in lines:
            kept = self.lines.get(line.turn_id)
            if (kept is None or kept.version <= line.version) and self._is_kept(line.turn_id):
                self.lines[line.turn_id] = line
        self._reached = reached

    async def clear(self) -> None:
        """Forget everything."""
        self.lines.clear()
        self._reached = Watermarks()

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return from how many facts lines were derived."""
        return {turn_id: self.lines[turn_id].version for turn_id in turn_ids if turn_id in self.lines}

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns."""
        return listed(self._rows(), newer, query)

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the episodes used last."""
        return episode_rows(map(use_of, with_newer(self._rows(), newer)), limit, before)

    def _rows(self) -> list[TurnRow]:
        return [line.row for line in self.lines.values() if line.row is not None]
