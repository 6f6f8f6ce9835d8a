"""Role tokens: `rt1.<base64url of the claims as JSON>.<Ed25519 signature in hex>`.

The signature covers `role-token`, 0x1f and everything before the last dot. There is one algorithm, and the token does
not name it, so a caller cannot choose a weaker one. A token may be used any number of times until it expires; the
`request_id` of a call detects repetitions.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from sidecar.core.decoding import base64url, from_base64url, from_json
from sidecar.core.errors import RoleTokenInvalid
from sidecar.core.operators.key_limits import KeyLimits
from sidecar.core.roles import Role
from sidecar.core.signatures import SignatureVerifier, Verification

VERSION: Final = "rt1"
LONGEST: Final = 2048
"""The most characters; a longer token is refused without parsing."""
PARTS: Final = 3
LONGEST_LIFE: Final = timedelta(hours=1)
SKEW: Final = timedelta(seconds=30)
"""How far the minter's clock may be ahead."""
SUBJECT: Final = re.compile(r"[!-~]{1,128}\Z")
SIGNATURE: Final = re.compile(r"[0-9a-f]{128}\Z")


class RoleClaims(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claims of a token.

    Attributes:
        kid: id of the signing key: 16 hex digits of the SHA-256 of its public half.
        aud: the deployment of the token.
        sub: the subject, for the audit.
        nbf, exp: whole seconds since 1970; at most an hour apart.
        jti: unique id of the token, for logs.
    """

    kid: str
    aud: str
    sub: str
    role: Role
    nbf: int
    exp: int
    jti: str

    @property
    def key(self) -> str:
        """What authenticates the subject: the signing key."""
        return self.kid


class Caller(msgspec.Struct, frozen=True):
    """The caller of a verified token; `RoleClaims` has these attributes, too.

    Attributes:
        sub, role: empty and None if only the key is known.
        jti: id of the token, for logs; empty: it has none.
        key: what authenticates the subject: the id of an operator's key, or the URL of an issuer.
    """

    sub: str
    role: Role | None
    jti: str = ""
    key: str = ""


def seal(claims: RoleClaims, sign: Callable[[bytes], str]) -> str:
    """Return the token.

    Args:
        claims: its claims.
        sign: returns an Ed25519 signature in hex.

    Raises:
        ValueError: the lifetime is not positive or exceeds an hour, or the subject is not 1 to 128 visible ASCII
            characters.
    """
    if not 0 < claims.exp - claims.nbf <= LONGEST_LIFE.total_seconds():
        raise ValueError("a role token lives for more than 0 seconds and at most 1 hour")
    if not SUBJECT.match(claims.sub):
        raise ValueError("the subject of a role token is 1 to 128 visible ASCII characters without spaces")
    head = f"{VERSION}.{base64url(msgspec.json.encode(claims))}"
    return f"{head}.{sign(_signed(head))}"


class RoleTokens:
    """Opens the tokens of one deployment.

    Args:
        judge: has the accepted public keys; removing a key revokes all its tokens.
        deployment: the required audience of a token.
        limits: by the id of a key; a key without limits may sign any role and subject.
    """

    def __init__(
        self, judge: SignatureVerifier, deployment: str, limits: Mapping[str, KeyLimits] | None = None
    ) -> None:
        self._deployment = deployment
        # One tuple, replaced as a whole: see `open`.
        self._accepted = judge, limits or {}

    def accept(self, judge: SignatureVerifier, limits: Mapping[str, KeyLimits]) -> None:
        """Replace the accepted keys from the next call on; tokens of removed keys are refused."""
        self._accepted = judge, limits

    def open(self, token: str, now: datetime) -> RoleClaims:
        """Return the claims of a token.

        Raises:
            RoleTokenInvalid: it is not a token, or not valid now; `metadata` has the `cause`.
        """
        # The cheap checks first: any client of the operator socket can send a text here.
        parts = token.split(".") if len(token) <= LONGEST and token.isascii() else []
        if len(parts) != PARTS or parts[0] != VERSION or not SIGNATURE.match(parts[2]):
            raise invalid("malformed", "it is no role token; mint one with `sidecar token mint`")
        claims = _claims(parts[1])
        if claims is None:
            raise invalid("malformed", "it is no role token; mint one with `sidecar token mint`")
        signed = _signed(f"{VERSION}.{parts[1]}")
        # Both in one read: `accept` may replace the keys and their limits at any time, and they belong together.
        judge, limits = self._accepted
        # The claims are parsed before, because the key's id is one of them; nothing else of them is used until here.
        if judge.judge(claims.kid, signed, parts[2]) is not Verification.FITS:
            raise invalid("signature", "it is not signed by a key that this sidecar accepts (operators.keys)")
        self._check(claims, now, limits.get(claims.kid))
        return claims

    def _check(self, claims: RoleClaims, now: datetime, limits: KeyLimits | None) -> None:
        """Check the claims of a genuine token."""
        if claims.aud != self._deployment:
            raise invalid("audience", "it is for another deployment; mint one for this one")
        # Checked here too: the holder of a key may mint tokens without `seal`.
        if not 0 < claims.exp - claims.nbf <= LONGEST_LIFE.total_seconds() or not SUBJECT.match(claims.sub):
            raise invalid("malformed", "it lives longer than an hour, or names no valid subject; mint another one")
        # Only the begin is lenient. A lenient expiry would lengthen the life of a stolen token.
        if now + SKEW < _moment(claims.nbf):
            raise invalid("not_yet_valid", "it is not valid yet; compare the clocks")
        if now >= _moment(claims.exp):
            raise invalid("expired", "it has expired; mint another one")
        # Last: the answer names the limits of the key, and is only for the holder of a valid token of it.
        if limits is not None and not limits.allow(claims.role, claims.sub):
            what = f"{limits.described()}, not for {claims.role} as {claims.sub}"
            raise invalid("key", f"{what}; mint another one, or use another key", key=claims.kid)


def _claims(text: str) -> RoleClaims | None:
    try:
        # `from_base64url` refuses other spellings, so one token has one text.
        claims = from_json(from_base64url(text), RoleClaims)
        # Discarded: a time that no `datetime` can express fails here, and not in the middle of the checks.
        _moment(claims.nbf), _moment(claims.exp)
    except (ValueError, OverflowError, OSError):
        return None
    return claims


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _signed(head: str) -> bytes:
    # The prefix keeps a signature over another kind of text from being valid for a token.
    return f"role-token\x1f{head}".encode()


def invalid(cause: str, what: str, **more: str) -> RoleTokenInvalid:
    """Return the refusal of a token; `cause` is one of `CAUSES`, `more` is added to the metadata."""
    return RoleTokenInvalid(f"the role token cannot be used: {what}", metadata={"cause": cause, **more})
