"""Verifies a token that an OpenID Connect issuer has signed for this sidecar: signature, audience and issuer.

It does not check the times of the token: `tokens.py` (operators) and `users.py` (users) do, by different rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt

from sidecar.adapters.oidc_issuer.key_source import KeySource

LONGEST: Final = 8192
"""Maximum number of characters of a token. A longer one is refused without parsing it."""
WITHOUT_TIMES: Final = {"verify_exp": False, "verify_nbf": False, "verify_iat": False}
"""Options of the library: the callers check the times."""


class TokenProblem(Exception):
    """A token is not valid.

    Attributes:
        cause: one word, for metrics and tests.
        text: the problem, without any part of the token, which is a secret.
    """

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text


def signed_claims(
    token: str, keys: KeySource, issuer: str, audience: str, required: Sequence[str]
) -> Mapping[str, Any]:
    """Return the claims of a token after it was verified. Does not check its times. Reads the keys from memory.

    Args:
        token: the text that the caller sent.
        keys: the public keys of the issuer.
        issuer: the required value of the claim `iss`.
        audience: a value that the claim `aud` must be or contain.
        required: the names of claims that the token must have.

    Raises:
        TokenProblem: the text is not a token, another issuer signed it, or it is for another audience.
    """
    if len(token) > LONGEST or not token.isascii():
        raise TokenProblem("malformed", f"it is over {LONGEST} characters, or has some that no token has")
    issuer_keys = keys.current()
    if issuer_keys is None:
        keys.miss()  # so that the keys are fetched soon, not after the whole interval
        raise TokenProblem("issuer_away", "the keys of the issuer are not known; try again")
    try:
        head = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise TokenProblem("malformed", "it is neither a minted token nor one of the issuer") from None
    # The header is not verified yet. It only selects the key, and the key determines the algorithm.
    algorithm_and_key = issuer_keys.by_id.get(str(head.get("kid")))
    if algorithm_and_key is None:
        # The issuer may have a new key, which the next fetch returns.
        keys.miss()
        raise TokenProblem("signature", "it is not signed by a key of the issuer that is known; try again soon")
    algorithm, key = algorithm_and_key
    # `crit` and `b64` name extensions that change what is signed. The library would ignore or support them.
    if head.get("alg") != algorithm or "crit" in head or "b64" in head:
        raise TokenProblem("signature", "its header asks for another way to check it than the key has")
    options: Any = {**WITHOUT_TIMES, "require": list(required)}
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
    # `RecursionError`: the parser raises it for deeply nested JSON.
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise TokenProblem("malformed", f"it cannot be read, or lacks one of: {', '.join(required)}") from None
    return claims
