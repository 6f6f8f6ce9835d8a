"""How many open turns are bound to each definition: what a decommission has to wait for. Source: PF1-FR-8, SX-39.

A decommission waits for the turns of a definition id, whatever the content that they were bound to: a minor revision
has another digest, and what is taken away (entry, modules, blocks) goes by the id.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from sidecar.core.binding.surface import CandidateVerdict
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.executing.stored import TurnQuery, TurnRow, TurnState
from sidecar.core.identifiers import DefinitionId, Digest, TurnId
from sidecar.operations.record_ports import RecordReads
from sidecar.operations.turns import Turn

CHOSEN: Final = CandidateVerdict.CHOSEN
MOST_ELSEWHERE: Final = 200
"""Open turns on record that are looked at for a table, the newest first; and of one page, where all are."""


class Held(NamedTuple):
    """What an open turn is bound to."""

    digests: tuple[Digest, ...] = ()
    ids: tuple[DefinitionId, ...] = ()


class PinnedTurns:
    """Counts the turns that are open here, and those on record that another sidecar has open.

    A turn that was bound elsewhere and has called nothing yet is on nobody's record, and is not counted.

    Args:
        open_here: the turns that this process knows.
        record: what is on record.
    """

    def __init__(self, open_here: Callable[[], Iterable[Turn]], record: RecordReads) -> None:
        """Join the parts."""
        self._open_here = open_here
        self._record = record

    async def count(self) -> Mapping[Digest, int]:
        """Return how many open turns hold each digest, of the newest on record. Raises `StoreUnavailable`."""
        return Counter(digest for held in await self._newest() for digest in held.digests)

    async def count_by_id(self) -> Mapping[DefinitionId, int]:
        """Return how many open turns hold each id, in any content, of the newest. Raises `StoreUnavailable`."""
        return Counter(definition_id for held in await self._newest() for definition_id in held.ids)

    async def pinned_to(self, definition_id: DefinitionId) -> int:
        """Return how many open turns hold an id in any content, of all on record. Raises `StoreUnavailable`."""
        pinned, known = self._here()
        pinned += [
            await self._bound_elsewhere(row.turn_id) async for row in self._all_open() if row.turn_id not in known
        ]
        return sum(definition_id in held.ids for held in pinned)

    async def _newest(self) -> list[Held]:
        pinned, known = self._here()
        rows = await self._record.turns(TurnQuery(state=TurnState.OPEN, limit=MOST_ELSEWHERE))
        return pinned + [await self._bound_elsewhere(row.turn_id) for row in rows if row.turn_id not in known]

    def _here(self) -> tuple[list[Held], dict[TurnId, bool]]:
        """Return what is bound here, and which turns are known here, open or not."""
        pinned: list[Held] = []
        known: dict[TurnId, bool] = {}
        for turn in self._open_here():
            known[turn.turn_id] = True
            if turn.closed is None:
                cards = [tool.card for tool in turn.surface.tools]
                digests, ids = (card.digest for card in cards), (card.definition.id for card in cards)
                pinned.append(Held(tuple(digests), tuple(ids)))
        return pinned, known

    async def _all_open(self) -> AsyncIterator[TurnRow]:
        query = TurnQuery(state=TurnState.OPEN, limit=MOST_ELSEWHERE)
        while True:
            page = await self._record.turns(query)
            for row in page:
                yield row
            if len(page) < MOST_ELSEWHERE:
                return
            query = msgspec.structs.replace(query, before=(page[-1].began_at, page[-1].turn_id))

    async def _bound_elsewhere(self, turn_id: TurnId) -> Held:
        turn = await self._record.turn(turn_id)
        if turn is None or turn.ended is not None or not turn.dispatches:
            return Held()
        claims = msgspec.json.decode(turn.dispatches[0].opened.claims_json, type=SurfaceClaims)
        slots = tuple(slot for slot, _ in claims.tools)
        chosen = (name for slot, name, verdict in claims.candidates if verdict == CHOSEN and name and slot in slots)
        return Held(tuple(digest for _, digest in claims.tools), tuple(chosen))
