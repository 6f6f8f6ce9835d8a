"""Establish for which user a turn is, where tokens of users prove it."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from sidecar.core.errors import Unauthenticated
from sidecar.operations.ports import Clock
from sidecar.operations.requests import TurnSource


class UserTokenVerifier(Protocol):
    """Knows what a user's token says."""

    def principal(self, token: str, now: datetime) -> str:
        """Return for which user it is. Raises `Unauthenticated`. Never waits."""


class Established(Struct, frozen=True):
    """For which user a turn is. `verified`: a token proved it; else the consumer-agent asserts it."""

    principal: str
    verified: bool


class EstablishPrincipal:
    """The check. Memory only; keeps nothing of a token.

    Args:
        tokens: verifies them.
        clock: says what time it is.
        asserted: sources of turns without a user at hand, for which the consumer-agent's word is enough.
    """

    def __init__(self, tokens: UserTokenVerifier, clock: Clock, asserted: Collection[TurnSource]) -> None:
        self._tokens = tokens
        self._clock = clock
        self._asserted = tuple(asserted)

    def __call__(self, token: str, claimed: str, source: TurnSource | None) -> Established:
        """Return for which user a turn is.

        Args:
            token: of the user; empty: none.
            claimed: the principal that the consumer-agent names; empty: none.
            source: where the turn comes from; None: not known.

        Raises:
            Unauthenticated: there is no token, it does not hold, or it is for another user than `claimed`.
        """
        if not token:
            if source in self._asserted:
                return Established(claimed, verified=False)
            raise Unauthenticated(
                "user_token is missing; this sidecar takes the principal of a turn from it (settings: principals)",
                metadata={"cause": "missing"},
            )
        proven = self._tokens.principal(token, self._clock.now())
        if claimed not in {"", proven}:
            raise Unauthenticated(
                "principal is not the user of user_token; leave it empty, or send that user's token",
                metadata={"cause": "other_user"},
            )
        return Established(proven, verified=True)
