"""Tokens of an OIDC issuer: who is let in by them, and every way to bring a wrong one."""

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sidecar.adapters.oidc_issuer import IssuerTokens, KeySource, KeysUnusable, keys_of
from sidecar.adapters.oidc_issuer.tokens import IssuerRules
from sidecar.core.errors import RoleTokenInvalid
from sidecar.core.operators.role_tokens import Caller
from sidecar.core.roles import CAUSES, Role
from tests.support.oidc import AUDIENCE, URL, Issuer, by_hand
from tests.support.operators_outside import SteppedClock

NOW: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOON: Final = int(NOW.timestamp())
ALL: Final = frozenset({"RS256", "ES256", "EdDSA"})
RULES: Final = IssuerRules(
    URL, AUDIENCE, "sub", "groups", {"ops": Role.OPERATOR, "all": Role.VIEWER, "also": Role.VIEWER}
)
ISSUER: Final = Issuer("rsa-1", "ec-1", "ed-1")
STRANGER: Final = Issuer("rsa-1", "ec-1", "ed-1", "ed-9")


async def tokens(issuer: Issuer = ISSUER) -> IssuerTokens:
    """Return what opens the tokens of an issuer, with its keys fetched."""

    async def fetch() -> bytes:
        return issuer.jwks()

    times = {"refresh": timedelta(minutes=5), "kept_for": timedelta(hours=1)}
    source = KeySource(fetch, ALL, SteppedClock(), **times, report=lambda kind, detail: None)
    await source.look()
    return IssuerTokens(source, RULES)


@pytest.mark.parametrize("kid", ["rsa-1", "ec-1", "ed-1"])
async def test_a_token_says_who_calls(kid: str) -> None:
    """By each of the three algorithms; audience and groups may be lists."""
    token = ISSUER.token(kid, NOON, aud=["other", AUDIENCE], groups=["staff", "ops"])

    assert (await tokens()).open(token, NOW) == Caller("ada@example", Role.OPERATOR, "t-1", URL)


async def test_groups_that_mean_the_same_role_are_one_role() -> None:
    """And a single text is as good as a list."""
    opened = await tokens()

    assert opened.open(ISSUER.token("ed-1", NOON, groups=["all", "also"]), NOW).role is Role.VIEWER
    assert opened.open(ISSUER.token("ed-1", NOON, groups="all", jti=None), NOW).jti == ""


def confused() -> str:
    """Return a token whose HMAC secret is the public RSA key."""
    public = ISSUER.keys["rsa-1"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = {"iss": URL, "aud": AUDIENCE, "sub": "mallory", "iat": NOON, "exp": NOON + 60, "groups": ["ops"]}
    unsigned = by_hand({"alg": "HS256", "kid": "rsa-1"}, claims).rpartition(".")[0]
    mac = hmac.digest(public, unsigned.encode(), hashlib.sha256)
    return by_hand({"alg": "HS256", "kid": "rsa-1"}, claims, mac)


def unsigned(**head: str) -> str:
    """Return a token that nobody signed."""
    claims = {"iss": URL, "aud": AUDIENCE, "sub": "mallory", "iat": NOON, "exp": NOON + 60, "groups": ["ops"]}
    return by_hand({"alg": "none", **head}, claims)


def altered() -> str:
    """Return a viewer's token that says it were an operator's."""
    head, _, signature = ISSUER.token("ed-1", NOON, groups=["all"]).split(".")
    body = ISSUER.token("ed-1", NOON, groups=["ops"]).split(".")[1]
    return f"{head}.{body}.{signature}"


WRONG: Final[dict[str, tuple[Callable[[], str], str]]] = {
    "alg none": (unsigned, "signature"),
    "alg none by a known key": (lambda: unsigned(kid="rsa-1"), "signature"),
    "HMAC with the public key": (confused, "signature"),
    "an algorithm of another key": (lambda: ISSUER.token("ed-1", NOON, {"kid": "rsa-1"}), "signature"),
    "a stranger under our kid": (lambda: STRANGER.token("rsa-1", NOON), "signature"),
    "a stranger": (lambda: STRANGER.token("ed-9", NOON), "signature"),
    "no kid": (lambda: ISSUER.token("ed-1", NOON, {"kid": ""}), "signature"),
    "altered": (altered, "signature"),
    "a critical header": (lambda: ISSUER.token("ed-1", NOON, {"crit": ["x"], "x": 1}), "malformed"),
    "other audience": (lambda: ISSUER.token("ed-1", NOON, aud="production"), "audience"),
    "no audience": (lambda: ISSUER.token("ed-1", NOON, aud=None), "malformed"),
    "other issuer": (lambda: ISSUER.token("ed-1", NOON, iss=f"{URL}/"), "issuer"),
    "no issuer": (lambda: ISSUER.token("ed-1", NOON, iss=None), "malformed"),
    "no end": (lambda: ISSUER.token("ed-1", NOON, exp=None), "malformed"),
    "no beginning": (lambda: ISSUER.token("ed-1", NOON, iat=None), "malformed"),
    "over an hour": (lambda: ISSUER.token("ed-1", NOON, exp=NOON + 3601), "malformed"),
    "ends before it begins": (lambda: ISSUER.token("ed-1", NOON, exp=NOON), "malformed"),
    "expired": (lambda: ISSUER.token("ed-1", NOON - 900), "expired"),
    "ends now": (lambda: ISSUER.token("ed-1", NOON - 600), "expired"),
    "from the future": (lambda: ISSUER.token("ed-1", NOON + 31), "not_yet_valid"),
    "not before": (lambda: ISSUER.token("ed-1", NOON, nbf=NOON + 31), "not_yet_valid"),
    "absurd time": (lambda: ISSUER.token("ed-1", NOON, iat=10**30), "malformed"),
    "time in words": (lambda: ISSUER.token("ed-1", NOON, iat="noon"), "malformed"),
    "no subject": (lambda: ISSUER.token("ed-1", NOON, sub=None), "subject"),
    "a subject with a line end": (lambda: ISSUER.token("ed-1", NOON, sub="ada\nroot"), "subject"),
    "no groups": (lambda: ISSUER.token("ed-1", NOON, groups=None), "no_role"),
    "groups that mean nothing": (lambda: ISSUER.token("ed-1", NOON, groups=["staff", 7, None]), "no_role"),
    "groups of two roles": (lambda: ISSUER.token("ed-1", NOON, groups=["ops", "all"]), "no_role"),
    "groups as an object": (lambda: ISSUER.token("ed-1", NOON, groups={"ops": True}), "no_role"),
    "half a surrogate pair": (lambda: ISSUER.token("ed-1", NOON) + "\udc80", "malformed"),
    "far too long": (lambda: ISSUER.token("ed-1", NOON, more="a" * 9000), "malformed"),
    "deep": (lambda: ".".join([by_hand({}, {}).split(".")[0], "W1tb" * 1900, ""]), "signature"),
    "no token": (lambda: "hello", "malformed"),
    "empty": (lambda: "", "malformed"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_token_is_refused_for_its_reason(name: str) -> None:
    """The cause is one of those that are counted; nothing of the token is in the text."""
    make, cause = WRONG[name]
    token = make()

    with pytest.raises(RoleTokenInvalid) as refused:
        (await tokens()).open(token, NOW)

    assert refused.value.metadata["cause"] == cause
    assert cause in CAUSES
    assert "mallory" not in str(refused.value)


async def test_the_skew_of_clocks_is_forgiven_once_and_the_end_is_not() -> None:
    """30 seconds before the beginning, and not a second after the end."""
    opened, token = await tokens(), ISSUER.token("ed-1", NOON)

    assert opened.open(token, NOW - timedelta(seconds=30)).sub == "ada@example"
    assert opened.open(token, NOW + timedelta(seconds=599)).sub == "ada@example"


def test_only_keys_that_can_be_used_are_taken() -> None:
    """Symmetric, private, short, for encryption, for another algorithm, without an id: left out one and all."""
    short = Issuer("rsa-short")
    short.keys["rsa-short"] = ("RS256", generate_private_key(65537, 1024))
    good = ISSUER.jwk("ed-1")
    listed = [
        good,
        {"kty": "oct", "kid": "a", "k": "c2VjcmV0", "alg": "HS256"},
        {**good, "kid": "b", "use": "enc"},
        {**good, "kid": "c", "alg": "RS256"},
        {**jwt.get_algorithm_by_name("EdDSA").to_jwk(ISSUER.keys["ed-1"][1], as_dict=True), "kid": "d"},
        {**good, "kid": None},
        {**good, "kid": "e", "x": "!"},
        short.jwk("rsa-short"),
        "nonsense",
    ]

    found = keys_of(json.dumps({"keys": listed}).encode(), ALL)

    assert sorted(found.by_id) == ["ed-1"]


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [1]}', b"\xff", b"[" * 100_000],
)
def test_what_is_no_jwks_is_refused(text: bytes) -> None:
    """A page of an outage, for example."""
    with pytest.raises(KeysUnusable):
        keys_of(text, ALL)


def test_keys_of_one_id_and_of_algorithms_that_are_not_pinned_are_refused() -> None:
    """Which of two keys counts would be a matter of luck."""
    twice = json.dumps({"keys": [ISSUER.jwk("ed-1"), ISSUER.jwk("ed-1")]}).encode()
    with pytest.raises(KeysUnusable, match="two keys have the kid"):
        keys_of(twice, ALL)
    with pytest.raises(KeysUnusable, match="no key with a kid for signatures by ES256"):
        keys_of(json.dumps({"keys": [ISSUER.jwk("ed-1")]}).encode(), frozenset({"ES256"}))
