"""Verifies a token that an issuer has signed for this sidecar: signature, algorithm, audience and issuer.

Callers check its times, because operators' tokens and users' tokens have different rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt

from sidecar.adapters.oidc_issuer.key_source import KeySource

LONGEST: Final = 8192
"""The most characters of a token; a longer one is refused without parsing it."""
ONLY_THEIR_SIGNATURE: Final = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}


class TokenProblem(Exception):
    """A token is not valid.

    Attributes:
        cause: one word, for metrics and tests.
        text: the problem, without any part of the token.
    """

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text


def signed_claims(
    token: str, keys: KeySource, issuer: str, audience: str, required: Sequence[str]
) -> Mapping[str, Any]:
    """Return the claims of a token of the issuer. Times are not checked.

    Raises:
        TokenProblem: the text is not a token, another issuer signed it, or it is for another audience.
    """
    if len(token) > LONGEST or not token.isascii():
        raise TokenProblem("malformed", f"it is over {LONGEST} characters, or has some that no token has")
    known = keys.current()
    if known is None:
        keys.miss()  # the next look is due now, not after the whole interval
        raise TokenProblem("issuer_away", "the keys of the issuer are not known; try again")
    try:
        head = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise TokenProblem("malformed", "it is neither a minted token nor one of the issuer") from None
    # The header is not verified yet; it only selects a key, and the key determines the algorithm.
    found = known.by_id.get(str(head.get("kid")))
    if found is None:
        keys.miss()
        raise TokenProblem("signature", "it is not signed by a key of the issuer that is known; try again soon")
    algorithm, key = found
    if head.get("alg") != algorithm or "crit" in head or "b64" in head:
        raise TokenProblem("signature", "its header asks for another way to check it than the key has")
    options: Any = {**ONLY_THEIR_SIGNATURE, "require": list(required)}
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token, key, algorithms=[algorithm], audience=audience, issuer=issuer, options=options
        )
    except jwt.InvalidAudienceError:
        raise TokenProblem("audience", "it is for another audience") from None
    except jwt.InvalidIssuerError:
        raise TokenProblem("issuer", "it names another issuer") from None
    except jwt.InvalidSignatureError:
        raise TokenProblem("signature", "its signature does not fit") from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise TokenProblem("malformed", f"it cannot be read, or lacks one of: {', '.join(required)}") from None
    return claims
