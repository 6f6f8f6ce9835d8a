"""Tokens: surfaces, receipts, roles, grants, pages, an issuer's keys and tokens.

A signed token is tried twice: the bytes are the token, and the bytes are what a genuine key has signed, so that the
parser behind the signature is reached as well.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidecar.adapters.checkpoints import Ed25519Judge, Ed25519Signer
from sidecar.adapters.oidc_issuer import IssuerKeys, IssuerTokens, KeysUnusable, keys_of
from sidecar.adapters.oidc_issuer.tokens import IssuerRules
from sidecar.core.binding.surface_token import SigningKeys, sign_token, verify_token
from sidecar.core.decoding import base64url
from sidecar.core.dispatching import receipts
from sidecar.core.errors import GrantInvalid, GrantSpent, RoleTokenInvalid, SurfaceTokenInvalid
from sidecar.core.listing.page_tokens import PageTokenInvalid, page_token, place_of
from sidecar.core.operators.role_tokens import RoleClaims, RoleTokens, seal
from sidecar.core.roles import Role
from sidecar.operations.turn.state.grants import GrantTable
from tests.fuzz.target import Target, as_text, holds
from tests.support.journal_drafts import some_claims

KEYS: Final = SigningKeys({"k1": b"k" * 32}, "k1")
NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECONDS: Final = int(NOW.timestamp())
JSON_WORDS: Final = (
    b'"kid"',
    b'"exp":1e400',
    b"null",
    b"[[",
    b'{"a":',
    b'"\\ud800"',
    b"-1",
    b"9" * 40,
    b"true",
    b"\xff",
)
SCOPE: Final = b"turns of ada"
SEPARATOR: Final = b"\x1f"


class Place(msgspec.Struct):
    """A place of a page."""

    at: datetime
    turn_id: str


@cache
def _operator() -> tuple[Ed25519Signer, RoleTokens]:
    signer = Ed25519Signer(Ed25519PrivateKey.from_private_bytes(b"o" * 32))
    return signer, RoleTokens(Ed25519Judge([signer.public_key()]), "tests")


@cache
def _surface() -> str:
    return sign_token(some_claims(), KEYS)


def _surface_token(data: bytes) -> None:
    """Only the token that was signed is genuine; signed bytes are claims, which survive a round, or are refused."""
    text = as_text(data)
    for token, forged in ((text, text != _surface()), (KEYS.sign("surface", data), False)):
        try:
            claims = verify_token(token, KEYS)
        except SurfaceTokenInvalid:
            continue
        holds(not forged, "a surface token that was never signed")
        holds(verify_token(sign_token(claims, KEYS), KEYS) == claims, "claims that do not survive a round")


def _receipt(data: bytes) -> None:
    """A receipt of another purpose or of no key is none; signed bytes are claims or none."""
    holds(receipts.opened(as_text(data), KEYS) is None, "a receipt that was never signed")
    holds(receipts.opened(_surface(), KEYS) is None, "a surface token taken for a receipt")
    receipts.opened(KEYS.sign(receipts.PURPOSE, data), KEYS)


def _role_token(data: bytes) -> None:
    """Refused with a cause, or a subject and a role of this deployment."""
    signer, tokens = _operator()
    head = f"rt1.{base64url(data)}"
    signed = f"{head}.{signer.sign(b'role-token' + SEPARATOR + head.encode())}"
    for token, forged in ((as_text(data), True), (signed, False)):
        try:
            claims = tokens.open(token, NOW)
        except RoleTokenInvalid as refused:
            holds(bool(refused.metadata.get("cause")), "a refusal without a cause")
            continue
        holds(not forged or token == _sealed(), "a role token that was never signed")
        holds(claims.aud == "tests" and claims.nbf - 30 <= SECONDS < claims.exp, "claims that do not hold now")


@cache
def _sealed() -> str:
    return seal(msgspec.json.decode(_role(), type=RoleClaims), _operator()[0].sign)


def _role() -> bytes:
    kid = _operator()[0].key_id
    claims = RoleClaims(kid=kid, aud="tests", sub="ada", role=Role.OPERATOR, nbf=SECONDS, exp=SECONDS + 600, jti="1")
    return msgspec.json.encode(claims)


class _Ids:
    """Makes ids that are known."""

    def new(self, kind: str) -> str:
        """Return one."""
        return f"{kind}-0123456789abcdef0123456789abcdef"


def _grant(data: bytes) -> None:
    """No grant is alive, so none is taken."""
    try:
        GrantTable(_Ids()).claim(as_text(data))
    except (GrantInvalid, GrantSpent):
        return
    holds(False, "a grant that was never minted")


def _page_token(data: bytes) -> None:
    """A token that is taken is one that this list makes: its place gives the token back."""
    text = as_text(data)
    for token in (text, page_token(SCOPE, Place(NOW, "t")), page_token(text.encode("utf-8", "replace"), [1])):
        try:
            place = place_of(token, SCOPE, Place)
        except PageTokenInvalid:
            continue
        holds(place_of(page_token(SCOPE, place), SCOPE, Place) == place, "a place that does not survive a round")


@cache
def _issuer() -> tuple[bytes, bytes]:
    key = Ed25519PrivateKey.from_private_bytes(b"i" * 32)
    jwk = jwt.get_algorithm_by_name("EdDSA").to_jwk(key.public_key(), as_dict=True)
    claims = {"iss": "https://issuer.example", "aud": "sidecar", "sub": "ada", "iat": SECONDS, "exp": SECONDS + 600}
    token = jwt.encode({**claims, "groups": ["ops"]}, key, "EdDSA", {"kid": "k"})
    jwk.pop("key_ops", None)
    return msgspec.json.encode({"keys": [{**jwk, "kid": "k", "use": "sig", "alg": "EdDSA"}]}), token.encode()


def _jwks(data: bytes) -> None:
    """Public keys with their algorithms, or one exception."""
    algorithms = frozenset({"RS256", "ES256", "EdDSA"})
    try:
        keys = keys_of(data, algorithms)
    except KeysUnusable:
        return
    holds(all(each[0] in algorithms for each in keys.by_id.values()), "an algorithm that is not pinned")
    holds(not any(hasattr(each[1], "private_bytes") for each in keys.by_id.values()), "a private key")


class _Keys:
    """A source that knows the issuer's key."""

    def current(self) -> IssuerKeys:
        """Return it."""
        return keys_of(_issuer()[0], frozenset({"EdDSA"}))

    def miss(self) -> None:
        """A token named another key."""


def _oidc_token(data: bytes) -> None:
    """Only the token that the issuer signed says who calls."""
    rules: Any = IssuerRules(
        issuer="https://issuer.example",
        audience="sidecar",
        subject_claim="sub",
        role_claim="groups",
        roles={"ops": Role.OPERATOR},
    )
    text = as_text(data)
    source: Any = _Keys()
    try:
        IssuerTokens(source, rules).open(text, NOW)
    except RoleTokenInvalid as refused:
        holds(bool(refused.metadata.get("cause")), "a refusal without a cause")
        return
    holds(text.encode() == _issuer()[1], "a token that the issuer never signed")


def targets() -> Iterator[Target]:
    """Yield the targets."""
    claims, surface = msgspec.json.encode(some_claims()), _surface().encode()
    yield Target("surface_token", _surface_token, [claims, surface], (*JSON_WORDS, b"v1.k1.", b".", b"2026-01-01T00"))
    receipt = (
        b'{"turn_id":"t","child_id":"c","episode_id":"e","principal":"p","slot":"shop","digest":"d","question":"q",'
        b'"kind":"needs_input","answerer":"user","expires_at":"2026-01-01T00:00:00Z"}'
    )
    yield Target("receipt", _receipt, [receipt, surface], (*JSON_WORDS, b"needs_approval", b"0001-01-01T00:00:00Z"))
    yield Target("role_token", _role_token, [_role(), _sealed().encode()], (*JSON_WORDS, b"rt1.", b".", b"viewer"))
    yield Target("grant", _grant, [b"gr1.grant-0123456789abcdef0123456789abcdef.end"], (b"gr1.", b".end", b"."))
    page = page_token(SCOPE, Place(NOW, "t")).encode()
    yield Target("page_token", _page_token, [page, page_token(b"others", [1]).encode()], (b"=", b"_", b"-", b"AAAA"))
    jwks, token = _issuer()
    yield Target("jwks", _jwks, [jwks], (*JSON_WORDS, b'"kty":"RSA"', b'"n":"AQAB"', b'"e":"AQAB"', b'"crv":"P-256"'))
    yield Target("oidc_token", _oidc_token, [token], (b"eyJ", b".", b"=", b"eyJhbGciOiJub25lIn0", b"_-"))
