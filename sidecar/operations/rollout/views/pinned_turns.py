"""Counts the open turns that are bound to each definition: a decommission waits for them. Source: PF1-FR-8, SX-39.

A decommission waits for the turns of a definition id, whatever content they were bound to: a minor revision has another
digest, but the parts that a decommission removes (entry, modules, blocks) belong to the id.

Each replica publishes the number of turns that it has bound, next to the version that its binds use. The last count of
a dead replica remains valid for the longest lifetime of a turn, because other replicas accept its tokens. A bind itself
publishes nothing.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import from_json
from sidecar.core.identifiers import DefinitionId, Digest, TurnId
from sidecar.core.rollout.serving import CandidateVerdict
from sidecar.operations.record.ports import RecordReads
from sidecar.operations.rollout.store.ports import KeptDefinition
from sidecar.operations.rollout.store.replicas import PinnedTurnCount, Replica
from sidecar.operations.rollout.store.store_rules import ALIVE_FOR
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.turn import Origin

CHOSEN: Final = CandidateVerdict.CHOSEN
MOST_ELSEWHERE: Final = 200
"""The most recorded open turns that `count` and `count_by_id` read, newest first; the page size of `pinned_to`."""


class TurnPins(NamedTuple):
    """The definitions that an open turn is bound to, by digest and by id."""

    digests: tuple[Digest, ...] = ()
    ids: tuple[DefinitionId, ...] = ()


class PinnedTurnSource(Protocol):
    """The part of the rollout store that this module needs."""

    async def elsewhere(self, within: timedelta) -> Sequence[Replica]:
        """Return the last reports of the other sidecars, including dead ones. Raises `StoreUnavailable`."""
        ...

    async def definition(self, digest: Digest) -> KeptDefinition | None:
        """Return a stored definition. Raises `StoreUnavailable`."""
        ...


class PinnedTurns:
    """Counts the open turns over all replicas, in two ways; the larger count is used.

    The first count is what the replicas report to have bound. The second is what this process and the record know: it
    includes turns that outlive the replica that bound them, but not turns that were bound elsewhere and called nothing.

    Args:
        open_here: the turns that this process knows.
        record: the turns on record.
        said: the reports of the other replicas.
        lasting: the longest lifetime of a turn.
    """

    def __init__(
        self,
        open_here: Callable[[], Iterable[Turn]],
        record: RecordReads,
        said: PinnedTurnSource,
        lasting: timedelta,
    ) -> None:
        self._open_here = open_here
        self._record = record
        self._reports = said
        self._lasting = lasting
        self._ids: dict[Digest, DefinitionId] = {}

    def bound_here(self) -> PinnedTurnCount:
        """Return the count that this replica reports.

        Only the replica that bound a turn counts it; reads memory only.
        """
        bound = (turn for turn in self._open_here() if turn.origin is Origin.BOUND_HERE and turn.ending.closed is None)
        return PinnedTurnCount(Counter(digest for turn in bound for digest in _pins_of(turn).digests), self._lasting)

    async def count(self) -> Mapping[Digest, int]:
        """Return how many open turns hold each digest, of the newest recorded turns. Raises `StoreUnavailable`."""
        # `|` takes the larger of both counts for each digest, for the reason given in `pinned_to`.
        return Counter(digest for pins in await self._newest() for digest in pins.digests) | await self._bound()

    async def count_by_id(self) -> Mapping[DefinitionId, int]:
        """Return how many open turns hold each id in any content, of the newest. Raises `StoreUnavailable`."""
        of_turns = Counter(definition_id for pins in await self._newest() for definition_id in pins.ids)
        return of_turns | await self._bound_ids()  # the larger count for each id, as in `count`

    async def pinned_to(self, definition_id: DefinitionId) -> int:
        """Return how many open turns hold an id in any content, of all recorded turns. Raises `StoreUnavailable`."""
        pinned, known = self._here()
        pinned += [await self._bound_elsewhere(turn_id) async for turn_id in self._all_open() if turn_id not in known]
        bound = await self._bound_ids()
        # The larger count: each of the two misses turns that the other has, and a decommission must not begin too
        # early.
        return max(sum(definition_id in pins.ids for pins in pinned), bound[definition_id])

    async def _bound(self) -> Counter[Digest]:
        """Return the sum of the counts that all replicas report; for this replica, from memory."""
        # From memory: the last report of this replica in the store may be a second old.
        bound = Counter(self.bound_here().turns)
        # A replica may die up to `ALIVE_FOR` after its last report, and its turns live for `lasting` from then on.
        within = self._lasting + ALIVE_FOR
        for replica in await self._reports.elsewhere(within):
            bound.update(replica.pinned)
        return bound

    async def _bound_ids(self) -> Counter[DefinitionId]:
        """Return the same sum by id. Ids of digests are cached, because a digest never changes its id."""
        bound = Counter[DefinitionId]()
        for digest, turns in (await self._bound()).items():
            kept = None if digest in self._ids else await self._reports.definition(digest)
            # A digest that is stored nowhere cannot be assigned to an id; the search of the record finds its turns.
            if kept is not None:
                self._ids[digest] = kept.definition_id
            if digest in self._ids:
                bound[self._ids[digest]] += turns
        return bound

    async def _newest(self) -> list[TurnPins]:
        """Return what the open turns here and the newest open turns on record are bound to."""
        pinned, known = self._here()
        turn_ids = await self._record.open_turns(MOST_ELSEWHERE)
        return pinned + [await self._bound_elsewhere(turn_id) for turn_id in turn_ids if turn_id not in known]

    def _here(self) -> tuple[list[TurnPins], dict[TurnId, bool]]:
        """Return what open turns here are bound to, and which turns are known here, open or not."""
        pinned: list[TurnPins] = []
        known: dict[TurnId, bool] = {}  # used as a set; the values have no meaning
        for turn in self._open_here():
            known[turn.turn_id] = True
            # Ended turns are known here as well, and hold nothing any more.
            if turn.ending.closed is None:
                pinned.append(_pins_of(turn))
        return pinned, known

    async def _all_open(self) -> AsyncIterator[TurnId]:
        """Iterate over all recorded open turns, newest first, page by page."""
        before: TurnId | None = None
        while True:
            page = await self._record.open_turns(MOST_ELSEWHERE, before)
            for turn_id in page:
                yield turn_id
            if len(page) < MOST_ELSEWHERE:
                return
            before = page[-1]

    async def _bound_elsewhere(self, turn_id: TurnId) -> TurnPins:
        """Return what a turn that is not known here is bound to; nothing if it has ended or called nothing."""
        turn = await self._record.turn(turn_id)
        if turn is None or turn.ended is not None or not turn.dispatches:
            return TurnPins()
        # All dispatches of a turn have the same claims: a bind freezes them.
        claims = from_json(turn.dispatches[0].opened.claims_json, SurfaceClaims)
        slots = tuple(slot for slot, _ in claims.tools)
        chosen = (name for slot, name, verdict in claims.candidates if verdict == CHOSEN and name and slot in slots)
        return TurnPins(tuple(digest for _, digest in claims.tools), tuple(chosen))


def _pins_of(turn: Turn) -> TurnPins:
    cards = [tool.card for tool in turn.surface.tools]
    return TurnPins(tuple(card.digest for card in cards), tuple(card.definition.id for card in cards))
