"""Verifies the role tokens that an OpenID Connect issuer gives to operators.

`signed_claims` verifies signature, audience and issuer; this module checks times and role.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from sidecar.adapters.oidc_issuer.key_source import KeySource
from sidecar.adapters.oidc_issuer.signed_claims import TokenProblem, signed_claims
from sidecar.core.errors import RoleTokenInvalid
from sidecar.core.operators.role_tokens import LONGEST_LIFE, SKEW, SUBJECT, Caller, invalid
from sidecar.core.roles import Role

LONGEST_ID: Final = 128
"""In characters."""
REQUIRED: Final = ("iss", "aud", "exp", "iat")
HINTS: Final = MappingProxyType(
    {
        "issuer_away": "the keys of the issuer are not known; try again, or use a minted token",
        "audience": "the token is for another audience; request a token for this sidecar from the issuer",
    }
)
"""Advice for operators, by the cause of a refusal."""


@dataclass(frozen=True, slots=True)
class IssuerRules:
    """The required contents of an operator's token.

    Attributes:
        issuer, audience: the exact values of these claims.
        subject_claim, role_claim: names of the claims with the operator's name and role.
        roles: the sidecar's role for each value of the role claim.
    """

    issuer: str
    audience: str
    subject_claim: str
    role_claim: str
    roles: Mapping[str, Role]


class IssuerTokens:
    """Verifies operators' tokens of one issuer.

    Args:
        keys: the keys of the issuer.
        rules: the required contents of a token.
    """

    def __init__(self, keys: KeySource, rules: IssuerRules) -> None:
        self._keys = keys
        self._rules = rules

    def open(self, token: str, now: datetime) -> Caller:
        """Return the operator of a token, with the role. Reads the keys from memory.

        Raises:
            RoleTokenInvalid: the text is not a token, or the token is not valid now. `metadata["cause"]` is the cause.
        """
        try:
            claims = signed_claims(token, self._keys, self._rules.issuer, self._rules.audience, REQUIRED)
        except TokenProblem as problem:
            raise invalid(problem.cause, HINTS.get(problem.cause, problem.text)) from None
        self._check_times(claims, now)
        subject, token_id = claims.get(self._rules.subject_claim), claims.get("jti", "")
        if not isinstance(subject, str) or not SUBJECT.match(subject):
            raise invalid("subject", f"its claim {self._rules.subject_claim} is not 1 to 128 visible ASCII characters")
        # The id is only for the log, so a token without an id, or with an unusual one, is valid.
        is_usable_id = isinstance(token_id, str) and len(token_id) <= LONGEST_ID and token_id.isprintable()
        return Caller(subject, self._role(claims), token_id if is_usable_id else "", self._rules.issuer)

    def _check_times(self, claims: Mapping[str, Any], now: datetime) -> None:
        issued, until = _moment(claims["iat"]), _moment(claims["exp"])
        begins = _moment(claims.get("nbf", claims["iat"]))
        # The earlier of the two counts. Otherwise a token that was issued early, for a later begin, would live longer.
        if not issued < until or until - min(issued, begins) > LONGEST_LIFE:
            raise invalid("malformed", "it lives longer than an hour, or not at all; let the issuer make shorter ones")
        if now + SKEW < max(issued, begins):
            raise invalid("not_yet_valid", "it is not valid yet; compare the clocks")
        # Without `SKEW`: a difference of clocks must not prolong the life of a token.
        if now >= until:
            raise invalid("expired", "it has expired; ask the issuer for another one")

    def _role(self, claims: Mapping[str, Any]) -> Role:
        """Return the role that the role claim means. Raises `RoleTokenInvalid` if it means no role, or several."""
        claim = claims.get(self._rules.role_claim)
        values = claim if isinstance(claim, list) else [claim]
        # A set, because several values of the claim may mean the same role.
        roles = {self._rules.roles[value] for value in values if isinstance(value, str) and value in self._rules.roles}
        if len(roles) != 1:
            what = "means no role" if not roles else "means several roles"
            raise invalid("no_role", f"its claim {self._rules.role_claim} {what} (operators.issuer.roles)")
        return roles.pop()


def _moment(seconds: object) -> datetime:
    """Return the time of a claim. Raises `RoleTokenInvalid` if it is not a number of seconds since 1970."""
    try:
        # `True` is an integer to Python, and no time.
        if isinstance(seconds, int | float) and not isinstance(seconds, bool):
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise invalid("malformed", "`exp`, `nbf` or `iat` is not a number of seconds since 1970")


__all__ = ["IssuerRules", "IssuerTokens", "RoleTokenInvalid"]
