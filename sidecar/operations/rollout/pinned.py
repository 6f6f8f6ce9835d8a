"""How many open turns are bound to each definition: what a decommission has to wait for. Source: PF1-FR-8, SX-39."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.executing.stored import TurnQuery, TurnRow, TurnState
from sidecar.core.identifiers import Digest, TurnId
from sidecar.operations.record_ports import RecordReads
from sidecar.operations.turns import Turn

MOST_ELSEWHERE: Final = 200
"""Open turns on record that are looked at for a table, the newest first; and of one page, where all are."""


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
        pinned, known = self._here()
        for row in await self._record.turns(TurnQuery(state=TurnState.OPEN, limit=MOST_ELSEWHERE)):
            if row.turn_id not in known:
                _add(pinned, await self._bound_elsewhere(row.turn_id))
        return pinned

    async def pinned_to(self, digest: Digest) -> int:
        """Return how many open turns hold one digest, of all that are on record. Raises `StoreUnavailable`."""
        pinned, known = self._here()
        async for row in self._all_open():
            if row.turn_id not in known:
                _add(pinned, await self._bound_elsewhere(row.turn_id))
        return pinned.get(digest, 0)

    def _here(self) -> tuple[dict[Digest, int], dict[TurnId, bool]]:
        """Return what is bound here, and which turns are known here, open or not."""
        pinned: dict[Digest, int] = {}
        known: dict[TurnId, bool] = {}
        for turn in self._open_here():
            known[turn.turn_id] = True
            if turn.closed is None:
                _add(pinned, [tool.card.digest for tool in turn.surface.tools])
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

    async def _bound_elsewhere(self, turn_id: TurnId) -> list[Digest]:
        turn = await self._record.turn(turn_id)
        if turn is None or turn.ended is not None or not turn.dispatches:
            return []
        claims = msgspec.json.decode(turn.dispatches[0].opened.claims_json, type=SurfaceClaims)
        return [digest for _, digest in claims.tools]


def _add(pinned: dict[Digest, int], digests: Iterable[Digest]) -> None:
    for digest in digests:
        pinned[digest] = pinned.get(digest, 0) + 1
