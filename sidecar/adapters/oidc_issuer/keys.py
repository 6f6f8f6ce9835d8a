"""Reads the public keys of an issuer from its JWKS.

The type of a key determines its signature algorithm. A token that names another algorithm is therefore refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from sidecar.core.decoding import DecodeError, from_json

MOST_KEYS: Final = 64
"""Maximum number of keys in a JWKS."""
SHORTEST_RSA: Final = 2048
"""The minimum size of an RSA key in bits."""
ALGORITHM_OF: Final[Mapping[tuple[str, str], str]] = {
    ("RSA", ""): "RS256",
    ("EC", "P-256"): "ES256",
    ("OKP", "Ed25519"): "EdDSA",
}
"""The algorithm by type and curve of a key. Symmetric keys are excluded: a key that verifies could also sign."""


class KeysUnusable(Exception):
    """The fetched text is not a JWKS, or has no usable key. The message says which."""


@dataclass(frozen=True, slots=True)
class IssuerKeys:
    """The usable keys of an issuer.

    Attributes:
        by_id: algorithm and public key, by key id (`kid`).
    """

    by_id: Mapping[str, tuple[str, Any]]


def keys_of(text: bytes, algorithms: frozenset[str]) -> IssuerKeys:
    """Return the keys of a JWKS that fit one of `algorithms`. Other keys of the issuer are ignored.

    Raises:
        KeysUnusable: the text is not a JWKS, two keys have the same `kid`, or no key is usable.
    """
    try:
        listed = from_json(text)["keys"]
    except (DecodeError, KeyError, TypeError):
        raise KeysUnusable("it is no JWKS: an object with a list `keys`") from None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise KeysUnusable(f"its `keys` are no list of at most {MOST_KEYS}")
    by_id: dict[str, tuple[str, Any]] = {}
    for each in listed:
        usable = _usable(each, algorithms)
        if usable is None:
            continue
        # The whole JWKS is refused: otherwise the order in the answer would decide which of the two keys is valid.
        if usable[0] in by_id:
            raise KeysUnusable(f"two keys have the kid {usable[0][:40]!r}")
        by_id[usable[0]] = usable[1:]
    if not by_id:
        raise KeysUnusable(f"it has no key with a kid for signatures by {', '.join(sorted(algorithms))}")
    return IssuerKeys(by_id)


def _usable(jwk: Any, algorithms: frozenset[str]) -> tuple[str, str, Any] | None:
    """Return key id, algorithm and public key; None if the key is not usable."""
    # `d` is the private part of a key. If it was published, anyone can sign with it.
    if not isinstance(jwk, dict) or not isinstance(jwk.get("kid"), str) or "d" in jwk:
        return None
    algorithm = ALGORITHM_OF.get((str(jwk.get("kty")), str(jwk.get("crv", ""))))
    if algorithm not in algorithms or jwk.get("alg", algorithm) != algorithm or jwk.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(jwk, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if isinstance(key, RSAPublicKey) and key.key_size < SHORTEST_RSA:
        return None
    return jwk["kid"], str(algorithm), key
