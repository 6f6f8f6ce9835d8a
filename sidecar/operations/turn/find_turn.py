"""Finds the turn of a token, and restores it from the record if this process did not bind it.

The consumer-agent may send the requests of one turn to different replicas. The token is signed and contains enough to
find the turn in the record, so any of them can continue the turn.
"""

from collections.abc import Awaitable, Callable, Mapping

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.definitions.cards.card import Card
from sidecar.core.errors import StoreUnavailable, SubagentsError
from sidecar.core.identifiers import Digest
from sidecar.operations.turn.restore_turn import RestoreTurn
from sidecar.operations.turn.state.open_turns import Turn, Turns
from sidecar.operations.turn.state.turn import Origin

FetchCard = Callable[[Digest], Awaitable[Card | None]]
"""Returns a card from memory or from the store; None: it is not stored. Raises `StoreUnavailable`."""


class FindTurn:
    """Finds the turn of a request. Every operation on a turn begins with it.

    Args:
        turns: the turns that this process knows.
        restore: reads the record of a turn.
        fetch: reads a card that the token names and the present configuration does not have.
    """

    def __init__(self, turns: Turns, restore: RestoreTurn, fetch: FetchCard) -> None:
        self._turns = turns
        self._restore = restore
        self._fetch = fetch

    async def __call__(self, token: str) -> Turn:
        """Return the turn.

        Raises:
            SurfaceTokenInvalid, SurfaceTokenExpired, AdmissionRefused.
            StoreUnavailable: another sidecar bound the turn, and its definitions or its record cannot be read.
        """
        turn = self._turns.held(token)
        if turn is None:
            turn = self._turns.of_token(token, await self._cards_of(self._turns.claims_of(token)))
        # Before the read, which waits: the turn now counts as used, so a bind that needs room does not end it as idle
        # meanwhile.
        self._turns.asked_for(turn)
        if turn.origin is Origin.BOUND_HERE:
            return turn
        # There is no await between this check and `begin_restoring`, so exactly one request reads the record.
        if turn.origin is Origin.UNREAD:
            await self._restore_once(turn)
        refused = await turn.restoring.wait()
        if refused is not None:
            raise refused
        return turn

    async def _cards_of(self, claims: SurfaceClaims) -> Mapping[Digest, Card]:
        """Return the cards of the bound surface, by digest, that are in memory or still stored."""
        cards = {}
        # A card that is not stored any more is left out. `Turns.of_token` then refuses the token, so that the client
        # binds the turn again.
        for digest in (claims.orchestrator_digest, *(digest for _, digest in claims.tools)):
            card = await self._fetch(digest)
            if card is not None:
                cards[digest] = card
        return cards

    async def _restore_once(self, turn: Turn) -> None:
        # The first request reads the record; concurrent requests for the same turn wait for its result in `restoring`.
        # If the read fails, the turn is forgotten, so that the next request reads again.
        turn.begin_restoring()
        # Remains if the read ends with an exception of another kind, or a cancellation: waiting requests need an error.
        refused: SubagentsError | None = StoreUnavailable("the turn could not be brought back; try again")
        try:
            await self._restore(turn)
            refused = None
        except SubagentsError as error:
            refused = error
        finally:
            if refused is not None:
                self._turns.forget(turn)
            turn.restored(refused)
