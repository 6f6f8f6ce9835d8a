"""Determines the user of a turn, if tokens of users must prove it.

The check runs in `rpc/dispatch_servicer` before a bind. All later requests of the turn carry the turn's signed token,
which names the user.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from sidecar.core.errors import Unauthenticated
from sidecar.operations.ports import Clock
from sidecar.operations.requests import TurnSource


class UserTokenVerifier(Protocol):
    """Verifies tokens of users."""

    def principal(self, token: str, now: datetime) -> str:
        """Return the user that a token proves. Raises `Unauthenticated`. Never waits."""


class Established(Struct, frozen=True):
    """The user of a turn. `verified`: a token proved it; otherwise the consumer-agent claims it."""

    principal: str
    verified: bool


class EstablishPrincipal:
    """The check. It only reads memory, and keeps no token itself.

    Attributes:
        tokens_needed: whether the caller must keep the user's token while the turn is open, because a connector
            exchanges it for another one.

    Args:
        tokens: verifies tokens.
        clock: the time for their expiry.
        asserted: sources of turns without a present user, for which the consumer-agent's claim is enough.
    """

    def __init__(self, tokens: UserTokenVerifier, clock: Clock, asserted: Collection[TurnSource]) -> None:
        self.tokens_needed = False
        self._tokens = tokens
        self._clock = clock
        self._asserted = tuple(asserted)

    def __call__(self, token: str, claimed: str, source: TurnSource | None) -> Established:
        """Return the user of a turn.

        Args:
            token: the user's token; empty: none.
            claimed: the principal that the consumer-agent names; empty: none.
            source: the source of the turn; None: unknown.

        Raises:
            Unauthenticated: the token is missing or invalid, or it belongs to another user than `claimed`.
        """
        if not token:
            # Only without a token: a token that is sent is always verified, whatever the source.
            if source in self._asserted:
                return Established(claimed, verified=False)
            raise Unauthenticated(
                "user_token is missing; this sidecar takes the principal of a turn from it (settings: principals)",
                metadata={"cause": "missing"},
            )
        # Verified before the comparison: an unverified token must not decide anything, not even the kind of error.
        proven = self._tokens.principal(token, self._clock.now())
        # Refused and not corrected: the client would show the data of the token's user to the user that it named.
        if claimed not in {"", proven}:
            raise Unauthenticated(
                "principal is not the user of user_token; leave it empty, or send that user's token",
                metadata={"cause": "other_user"},
            )
        return Established(proven, verified=True)
