"""What lists need of a database: rows of turns, derived from the journal, that can be rebuilt at any time.

1. `apply` writes lines and watermarks in one transaction: the rows follow from the facts up to the watermarks.
2. A line of an older version never replaces the line of a turn.
3. Everything may be lost at any time, but only as a whole: the watermarks are then lost, too.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol

from sidecar.core.executing.stored_record import EpisodeMark, EpisodeRow, TurnQuery, TurnRow
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import Watermarks
from sidecar.core.listing.turn_rows import Newer, TurnLine


class Projection(Protocol):
    """The rows of lists. Every method raises `StoreUnavailable` if it cannot answer, or if there are no rows."""

    async def mine(self) -> Sequence[str] | None:
        """Return the sequences that this process may project now; None: all. Other processes project the rest."""

    async def watermarks(self) -> Watermarks:
        """Return the position up to which the journal was projected; empty if it was not, or if the rows are lost."""

    async def apply(
        self, lines: Sequence[TurnLine], reached: Watermarks, days: Sequence[date] = (), gone: Sequence[TurnId] = ()
    ) -> None:
        """Remove the turns of `days` and those in `gone`; write `lines` and the watermarks that they lead to.

        If the alterations of `reached` differ from the stored ones, replaced rows must not remain in any file.
        """

    async def clear(self) -> None:
        """Remove everything."""

    async def versions(self, turn_ids: Sequence[TurnId]) -> Mapping[TurnId, int]:
        """Return, for each turn that has a row, the number of facts that its row was derived from."""

    async def turns(self, query: TurnQuery, newer: Newer) -> Sequence[TurnRow]:
        """Return a list of turns, newest first; rows of `newer` take precedence over stored ones."""

    async def episodes(self, limit: int, newer: Newer, before: EpisodeMark | None = None) -> Sequence[EpisodeRow]:
        """Return the most recently used episodes, newest first; `newer` as for `turns`."""
