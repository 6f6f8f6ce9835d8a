"""Verifies the tokens that prove the user of a turn: a claim of a verified token becomes the turn's principal."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sidecar.adapters.oidc_issuer.key_source import KeySource
from sidecar.adapters.oidc_issuer.signed_claims import TokenProblem, signed_claims
from sidecar.core.errors import Unauthenticated

REQUIRED: Final = ("iss", "aud", "exp")
LONGEST_PRINCIPAL: Final = 256
"""In characters."""


@dataclass(frozen=True, slots=True)
class UserRules:
    """The required contents of a user's token.

    Attributes:
        issuer, audience: the exact values of these claims.
        principal_claim: name of the claim that becomes the principal.
        leeway: the largest accepted difference between the clocks of issuer and sidecar.
        longest_life: the longest accepted time from the begin to the end of a token.
    """

    issuer: str
    audience: str
    principal_claim: str
    leeway: timedelta
    longest_life: timedelta


class UserTokens:
    """Verifies tokens of users.

    Args:
        keys: the keys of the issuer.
        rules: the required contents of a token.
    """

    def __init__(self, keys: KeySource, rules: UserRules) -> None:
        self._keys = keys
        self._rules = rules

    def principal(self, token: str, now: datetime) -> str:
        """Return the user of a token. Reads memory only.

        Raises:
            Unauthenticated: the token is not valid now. `metadata["cause"]` is the cause.
        """
        rules = self._rules
        try:
            claims = signed_claims(token, self._keys, rules.issuer, rules.audience, REQUIRED)
            self._check_times(claims, now.timestamp())
            return self._principal(claims)
        except TokenProblem as problem:
            raise unproven(problem.cause, problem.text) from None

    def _check_times(self, claims: Mapping[str, Any], now: float) -> None:
        leeway, longest = self._rules.leeway.total_seconds(), self._rules.longest_life.total_seconds()
        ends = _seconds(claims["exp"])
        # `nbf` and `iat` are optional. Without them the token's life counts from now, so that a long one is refused.
        begins = _seconds(claims.get("nbf", claims.get("iat", now)))
        issued = _seconds(claims.get("iat", begins))
        # The life counts from the earliest of `iat`, `nbf` and now: a later `nbf` must not make a long life look short.
        # The first condition has no `now`: a token that has expired is refused below, with that cause.
        if not ends > min(issued, begins) or ends - min(issued, begins, now) > longest + leeway:
            raise TokenProblem("life", f"it is valid for longer than {longest:g} s, or not at all")
        if now + leeway < max(begins, issued):
            raise TokenProblem("not_yet_valid", "it is not valid yet; compare the clocks")
        if now >= ends + leeway:
            raise TokenProblem("expired", "it has expired; let the user sign in again")

    def _principal(self, claims: Mapping[str, Any]) -> str:
        # Nothing is trimmed or converted: otherwise two users of the issuer could become one principal.
        principal = claims.get(self._rules.principal_claim)
        if (
            not isinstance(principal, str)
            or not 1 <= len(principal) <= LONGEST_PRINCIPAL
            or not principal.isprintable()
        ):
            text = f"its claim {self._rules.principal_claim} is not 1 to {LONGEST_PRINCIPAL} printable characters"
            raise TokenProblem("principal", text)
        return principal


def unproven(cause: str, text: str) -> Unauthenticated:
    """Return the error of a bind whose principal is not proven.

    Args:
        cause: one word, as in `TokenProblem.cause`.
        text: the problem, without any part of the token.
    """
    return Unauthenticated(f"the user token does not prove the principal: {text}", metadata={"cause": cause})


def _seconds(moment: object) -> float:
    """Return the value of a claim as seconds since 1970. Raises `TokenProblem` if it is not such a number."""
    # An integer of hundreds of digits overflows. `True` is an integer to Python, and no time.
    with suppress(OverflowError):
        if isinstance(moment, int | float) and not isinstance(moment, bool) and math.isfinite(moment):
            return float(moment)
    raise TokenProblem("malformed", "`exp`, `nbf` or `iat` is not a number of seconds since 1970")
