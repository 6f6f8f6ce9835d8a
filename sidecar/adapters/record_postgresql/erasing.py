"""Erases texts from the journal."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from sidecar.adapters.record_postgresql.reads import PAGE, PostgresReads
from sidecar.core.decoding import from_json
from sidecar.core.identifiers import TurnId
from sidecar.core.journal.markers import Erasure, TextsErased

ERASURES: Final = "select body from erasures order by marker_id"
SAYING: Final = """
select turn_id, exists (
  select from facts fact
  where fact.day = page.day and fact.turn_id = page.turn_id and position($3::bytea in fact.texts) > 0
) from (select turn_id, day from turn_heads where turn_id > $1 order by turn_id limit $2) page order by turn_id
"""
"""A page of all turns, each with whether its texts contain the bytes.

Turns without them are returned, too. Otherwise an empty page would end the search, and no position would be known for
the next page.
"""
ERASE: Final = "select journal_erase($1::text::json)"


class PostgresErasing(PostgresReads):
    """The methods of `RecordArchive` that erase."""

    async def erasures(self) -> Sequence[TextsErased]:
        """Return the marker of every erasure."""
        return [from_json(body, TextsErased) for (body,) in await self._statements.rows(ERASURES)]

    async def turns_saying(self, text: str) -> AsyncIterator[TurnId]:
        """Iterate over the turns whose texts contain these characters."""
        # The column holds MessagePack, which contains the UTF-8 bytes of each string unchanged.
        turn_id, sought = TurnId(""), text.encode()
        while page := await self._statements.rows(SAYING, turn_id, PAGE, sought):
            for each, says_so in page:
                turn_id = TurnId(each)
                if says_so:
                    yield turn_id

    async def erase(self, erasure: Erasure) -> None:
        """Store the marker, and remove the texts."""
        # As hexadecimal texts, because JSON has no bytes.
        facts = [(fact.turn_id, fact.version, fact.link.hex(), fact.texts_digest.hex()) for fact in erasure.facts]
        await self._run_long(ERASE, msgspec.json.encode({"marker": erasure.marker, "facts": facts}).decode())

    async def compact(self) -> None:
        """Do nothing: PostgreSQL overwrites removed rows when it vacuums, which it does automatically."""
