"""Verifies the tokens of an issuer.

The library checks signature, audience and issuer; this module checks times and role.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import jwt

from sidecar.adapters.oidc_issuer.key_source import KeySource
from sidecar.core.errors import RoleTokenInvalid
from sidecar.core.operators.role_tokens import LONGEST_LIFE, SKEW, SUBJECT, Caller, invalid
from sidecar.core.roles import Role

LONGEST: Final = 8192
"""Characters; more is refused unread."""
LONGEST_ID: Final = 128
ONLY_THEIR_SIGNATURE: Final = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
REQUIRED: Final = ("iss", "aud", "exp", "iat")


@dataclass(frozen=True, slots=True)
class IssuerRules:
    """What a token has to say.

    Attributes:
        issuer, audience: character for character.
        subject_claim, role_claim: names of claims.
        roles: by what the role claim says.
    """

    issuer: str
    audience: str
    subject_claim: str
    role_claim: str
    roles: Mapping[str, Role]


class IssuerTokens:
    """Opens tokens of one issuer.

    Args:
        keys: of the issuer.
        rules: what a token has to say.
    """

    def __init__(self, keys: KeySource, rules: IssuerRules) -> None:
        self._keys = keys
        self._rules = rules

    def open(self, token: str, now: datetime) -> Caller:
        """Return who calls.

        Raises:
            RoleTokenInvalid: it does not hold now, or is none; `metadata` has the `cause`.
        """
        claims = self._genuine(token)
        self._check_times(claims, now)
        subject, token_id = claims.get(self._rules.subject_claim), claims.get("jti", "")
        if not isinstance(subject, str) or not SUBJECT.match(subject):
            raise invalid("subject", f"its claim {self._rules.subject_claim} is not 1 to 128 visible ASCII characters")
        known_id = isinstance(token_id, str) and len(token_id) <= LONGEST_ID and token_id.isprintable()
        return Caller(subject, self._role(claims), token_id if known_id else "", self._rules.issuer)

    def _genuine(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token that the issuer has signed, for us."""
        if len(token) > LONGEST:
            raise invalid("malformed", f"it is over {LONGEST} characters")
        keys = self._keys.current()
        if keys is None:
            raise invalid("issuer_away", "the keys of the issuer are not known; try again, or use a minted token")
        try:
            head = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise invalid("malformed", "it is neither a minted token nor one of the issuer") from None
        found = keys.by_id.get(str(head.get("kid")))
        if found is None:
            self._keys.miss()
            raise invalid("signature", "it is not signed by a key of the issuer that is known; try again soon")
        algorithm, key = found
        if head.get("alg") != algorithm or "crit" in head or "b64" in head:
            raise invalid("signature", "its header asks for another way to check it than the key has")
        return self._decoded(token, algorithm, key)

    def _decoded(self, token: str, algorithm: str, key: Any) -> Mapping[str, Any]:
        rules = self._rules
        options: Any = {**ONLY_THEIR_SIGNATURE, "require": list(REQUIRED)}
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token, key, algorithms=[algorithm], audience=rules.audience, issuer=rules.issuer, options=options
            )
        except jwt.InvalidAudienceError:
            raise invalid(
                "audience", "the token is for another audience; request a token for this sidecar from the issuer"
            ) from None
        except jwt.InvalidIssuerError:
            raise invalid("issuer", "it names another issuer") from None
        except jwt.InvalidSignatureError:
            raise invalid("signature", "its signature does not fit") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise invalid("malformed", f"it cannot be read, or lacks one of: {', '.join(REQUIRED)}") from None
        return claims

    def _check_times(self, claims: Mapping[str, Any], now: datetime) -> None:
        issued, until = _moment(claims["iat"]), _moment(claims["exp"])
        begins = _moment(claims.get("nbf", claims["iat"]))
        if not issued < until or until - min(issued, begins) > LONGEST_LIFE:
            raise invalid("malformed", "it lives longer than an hour, or not at all; let the issuer make shorter ones")
        if now + SKEW < max(issued, begins):
            raise invalid("not_yet_valid", "it is not valid yet; compare the clocks")
        if now >= until:
            raise invalid("expired", "it has expired; ask the issuer for another one")

    def _role(self, claims: Mapping[str, Any]) -> Role:
        """Return the one role that the claim means; none and several are no role."""
        said = claims.get(self._rules.role_claim)
        values = said if isinstance(said, list) else [said]
        roles = {self._rules.roles[value] for value in values if isinstance(value, str) and value in self._rules.roles}
        if len(roles) != 1:
            what = "means no role" if not roles else "means several roles"
            raise invalid("no_role", f"its claim {self._rules.role_claim} {what} (operators.issuer.roles)")
        return roles.pop()


def _moment(seconds: object) -> datetime:
    """Return a moment. Raises `RoleTokenInvalid` for anything but seconds since 1970."""
    try:
        if isinstance(seconds, int | float) and not isinstance(seconds, bool):
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise invalid("malformed", "one of its times is none")


__all__ = ["IssuerRules", "IssuerTokens", "RoleTokenInvalid"]
