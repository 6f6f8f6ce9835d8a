"""Ends a turn on an operator's request, if its parent does not end it.

The normal way is `end_turn`, which the parent calls. This operation is for a turn whose parent is gone or stuck: it
ends the turn with the default verdicts, and the operator's name and reason are logged first.
"""

from typing import Protocol

from msgspec import Struct

from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, sign_token
from sidecar.core.decoding import from_json
from sidecar.core.errors import StoreUnavailable, SurfaceTokenExpired, TurnEnded, UnknownTurn
from sidecar.core.executing.stored_record import StoredTurn
from sidecar.core.identifiers import TurnId
from sidecar.operations.record.timed_access import read_within
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.end_turn import EndTurn
from sidecar.operations.turn.find_turn import FindTurn
from sidecar.operations.turn.state.open_turns import Turn, Turns


class EndTurnReporter(Protocol):
    """Receives operator and reason before a turn is ended. Never raises, never waits."""

    def __call__(self, turn_id: str, by: str, reason: str) -> None:
        """Log the request."""


class EndedTurn(Struct, frozen=True):
    """The end of a turn.

    Attributes:
        before: the turn had ended before this request.
        children: the number of its children.
    """

    before: bool
    close_reason: str
    children: int


class EndTurnForOperator:
    """The operation. Safe to repeat."""

    def __init__(
        self,
        rules: DispatchRules,
        dependencies: TurnDependencies,
        turns: Turns,
        keys: SigningKeys,
        *,
        find: FindTurn,
        end_turn: EndTurn,
    ) -> None:
        self._timeout = rules.record_timeout.total_seconds()
        self._deps = dependencies
        self._turns = turns
        self._keys = keys
        self._find, self._end_turn = find, end_turn

    async def __call__(self, turn_id: TurnId) -> EndedTurn:
        """End a turn, whichever sidecar bound it. What this process does not know is read from the record.

        Raises:
            UnknownTurn: neither this process nor the record knows the turn.
            TurnEnded: its token has expired; a sidecar closes it soon.
            StoreUnavailable: the turn cannot be read, or its end cannot be recorded; repeat the request.
            RecordConflict: another sidecar appended to the turn first; repeat the request.
        """
        turn = self._turns.known(turn_id)
        if turn is None:
            stored = await self._stored(turn_id)
            # Nothing is restored for an ended turn: the operator only learns how it ended.
            if stored.ended is not None:
                return EndedTurn(True, stored.ended.close_reason, len(stored.children))
            turn = await self._restored(stored)
        # Before the end: afterwards every turn has ended.
        before = turn.ending.closed is not None
        closed = await self._end_turn.for_operator(turn)
        return EndedTurn(before, closed.routing.close_reason, len(closed.children))

    async def _stored(self, turn_id: TurnId) -> StoredTurn:
        """Return the recorded turn. Raises `UnknownTurn`, `StoreUnavailable`."""
        stored = await read_within(self._deps.store.turn(turn_id), self._timeout)
        if isinstance(stored, StoreUnavailable):
            raise stored
        if stored is None:
            raise UnknownTurn(
                "no such turn is open here or on record; one that has not dispatched is known only where it was bound",
                metadata={"turn_id": turn_id},
            )
        return stored

    async def _restored(self, stored: StoredTurn) -> Turn:
        """Return a recorded open turn as a turn in memory. Raises `TurnEnded`, `StoreUnavailable`."""
        # A recorded turn has at least one dispatch. Signing the recorded claims again gives the token of the bind, so
        # the same path as for a client's request restores the turn.
        claims = from_json(stored.dispatches[0].opened.claims_json, SurfaceClaims)
        try:
            return await self._find(sign_token(claims, self._keys))
        except SurfaceTokenExpired:
            raise TurnEnded(
                "the turn's time is over; it is closed for its parent within seconds, by a sidecar that lives",
                metadata={"turn_id": claims.turn_id},
            ) from None
