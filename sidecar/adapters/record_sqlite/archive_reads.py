"""Reads of the archive, of a file that this process has open or of a copy. What may be many rows is read in pages."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import date
from functools import partial
from typing import TypeVar

import apsw

from sidecar.adapters.record_sqlite import archive
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import RootState
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import FactsRemoved, TextsErased

Result = TypeVar("Result")


class SqliteArchiveReads(ABC):
    """Each page is one consistent read."""

    async def roots(self) -> Sequence[RootState]:
        """Return the present state of each running root."""
        return await self._read(archive.roots)

    async def facts_of_day(self, day: date) -> AsyncIterator[Stored]:
        """Iterate over all facts of the turns of a day."""
        lowest, up_to = await self._read(lambda connection: archive.bounds_of(connection, day))
        page_of_day = partial(archive.page_of_day, day=day, up_to=up_to)
        after = lowest - 1
        while page := await self._read(partial(page_of_day, after=after), f"the facts after {after}"):
            for after, fact in page:  # noqa: B007  the last one is where the next page begins
                yield fact

    async def turn_ids(self) -> AsyncIterator[TurnId]:
        """Iterate over the ids of all turns."""
        after = 0
        while page := await self._read(partial(archive.turn_page, after=after), f"the turns after {after}"):
            for after, turn_id in page:  # noqa: B007  the last one is where the next page begins
                yield turn_id

    async def markers(self) -> Sequence[FactsRemoved]:
        """Return every marker of removed facts."""
        return await self._read(archive.stored_markers)

    async def erasures(self) -> Sequence[TextsErased]:
        """Return the marker of every erasure."""
        return await self._read(archive.stored_erasures)

    @abstractmethod
    async def _read(self, work: Callable[[apsw.Connection], Result], what: str = "the record") -> Result:
        """Do work on one state of the file; `what` it reads, for messages. Raises `StoreUnavailable`."""
