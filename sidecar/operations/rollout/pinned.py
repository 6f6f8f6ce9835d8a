"""How many open turns are bound to each definition: what a decommission has to wait for. Source: PF1-FR-8, SX-39.

Each replica shows how many turns it has bound, beside the version that its binds show. What one that died has shown
last counts until the longest life of a turn is over: its tokens are good at the others. Binding itself tells nobody.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.executing.stored import TurnQuery, TurnRow, TurnState
from sidecar.core.identifiers import Digest, TurnId
from sidecar.operations.record_ports import RecordReads
from sidecar.operations.rollout.keeping import ALIVE_FOR
from sidecar.operations.rollout.replicas import Pinned, Replica
from sidecar.operations.turns import Turn

MOST_ELSEWHERE: Final = 200
"""Open turns on record that are looked at for a table, the newest first; and of one page, where all are."""


class SaysWhatIsPinned(Protocol):
    """What is needed of the store of rollouts."""

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return what the other sidecars said last, dead ones too. Raises `StoreUnavailable`."""
        ...


class PinnedTurns:
    """Counts the open turns over all replicas.

    Twice, of which the larger counts: what the replicas say that they have bound; and what is known here or on record,
    where a turn that outlives whoever bound it is known too, but not one that was bound elsewhere and called nothing.

    Args:
        open_here: the turns that this process knows.
        record: what is on record.
        said: what the other replicas say.
        lasting: the longest life of a turn.
    """

    def __init__(
        self,
        open_here: Callable[[], Iterable[Turn]],
        record: RecordReads,
        said: SaysWhatIsPinned,
        lasting: timedelta,
    ) -> None:
        """Join the parts."""
        self._open_here = open_here
        self._record = record
        self._said = said
        self._lasting = lasting

    def bound_here(self) -> Pinned:
        """Return what this replica shows to the others: each turn is counted by the one that bound it; memory only."""
        pinned: dict[Digest, int] = {}
        for turn in self._open_here():
            if turn.closed is None and turn.bound_here:
                _add(pinned, _held_by(turn))
        return Pinned(pinned, self._lasting)

    async def count(self) -> Mapping[Digest, int]:
        """Return how many open turns hold each digest, of the newest on record. Raises `StoreUnavailable`."""
        pinned, known = self._here()
        for row in await self._record.turns(TurnQuery(state=TurnState.OPEN, limit=MOST_ELSEWHERE)):
            if row.turn_id not in known:
                _add(pinned, await self._bound_elsewhere(row.turn_id))
        bound = await self._bound()
        return {digest: max(pinned.get(digest, 0), bound.get(digest, 0)) for digest in {**pinned, **bound}}

    async def pinned_to(self, digest: Digest) -> int:
        """Return how many open turns hold one digest, of all that are on record. Raises `StoreUnavailable`."""
        pinned, known = self._here()
        async for row in self._all_open():
            if row.turn_id not in known:
                _add(pinned, await self._bound_elsewhere(row.turn_id))
        return max(pinned.get(digest, 0), (await self._bound()).get(digest, 0))

    async def _bound(self) -> Mapping[Digest, int]:
        """Return how many turns all replicas say that they have bound; this one by its memory."""
        bound = dict(self.bound_here().turns)
        for replica in await self._said.elsewhere(
            self._lasting + ALIVE_FOR
        ):  # it may have died before it said the last
            for digest, turns in replica.pinned.items():
                bound[digest] = bound.get(digest, 0) + turns
        return bound

    def _here(self) -> tuple[dict[Digest, int], dict[TurnId, bool]]:
        """Return what is bound here, and which turns are known here, open or not."""
        pinned: dict[Digest, int] = {}
        known: dict[TurnId, bool] = {}
        for turn in self._open_here():
            known[turn.turn_id] = True
            if turn.closed is None:
                _add(pinned, _held_by(turn))
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


def _held_by(turn: Turn) -> list[Digest]:
    return [tool.card.digest for tool in turn.surface.tools]


def _add(pinned: dict[Digest, int], digests: Iterable[Digest]) -> None:
    for digest in digests:
        pinned[digest] = pinned.get(digest, 0) + 1
