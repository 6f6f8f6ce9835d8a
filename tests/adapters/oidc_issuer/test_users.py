"""Tokens of users: which ones prove a principal, and which principal."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sidecar.adapters.oidc_issuer.key_source import KeySource
from sidecar.adapters.oidc_issuer.users import UserRules, UserTokens
from sidecar.core.errors import Unauthenticated
from tests.support.oidc import AUDIENCE, URL, Issuer, by_hand
from tests.support.operators_outside import SteppedClock

NOW = 1_790_000_000
AT = datetime.fromtimestamp(NOW, UTC)


def tokens_of(issuer: Issuer, *, algorithms: frozenset[str] = frozenset({"RS256", "ES256", "EdDSA"})) -> UserTokens:
    """Return what opens tokens of an issuer, with its keys fetched."""

    async def fetch() -> bytes:
        return issuer.jwks()

    keys = KeySource(
        fetch,
        algorithms,
        SteppedClock(),
        refresh=timedelta(minutes=5),
        kept_for=timedelta(hours=1),
        report=lambda *_: None,
    )
    asyncio.run(keys.look())
    return UserTokens(keys, UserRules(URL, AUDIENCE, "sub", timedelta(seconds=30), timedelta(hours=1)))


def cause_of(tokens: UserTokens, token: str) -> str:
    """Return why a token proves nothing; the message shows nothing of it."""
    with pytest.raises(Unauthenticated) as refused:
        tokens.principal(token, AT)
    assert token == "" or token not in refused.value.message
    return refused.value.metadata["cause"]


def test_a_time_that_is_no_number_is_explained_by_the_claims_that_have_times() -> None:
    """The issuer's administrator reads which claims to correct, and in which unit."""
    issuer = Issuer("ed-1")
    with pytest.raises(Unauthenticated) as refused:
        tokens_of(issuer).principal(issuer.token("ed-1", NOW, exp="soon"), AT)
    assert refused.value.message.endswith(": `exp`, `nbf` or `iat` is not a number of seconds since 1970")


@pytest.mark.parametrize("kid", ["rsa-1", "ec-1", "ed-1"])
@pytest.mark.parametrize("principal", ["user-1", "Ada Lovelace", "auth0|5f7c", "ü" * 256])
def test_the_claim_becomes_the_principal_byte_for_byte(kid: str, principal: str) -> None:
    """Signed by any key of the issuer, for an audience among several."""
    issuer = Issuer(kid)
    token = issuer.token(kid, NOW, sub=principal, aud=["other", AUDIENCE], iat=None)
    assert tokens_of(issuer).principal(token, AT) == principal


@pytest.mark.parametrize(
    ("cause", "claims"),
    [
        ("expired", {"iat": NOW - 700, "exp": NOW - 31}),
        ("not_yet_valid", {"iat": NOW + 31, "exp": NOW + 600}),
        ("not_yet_valid", {"nbf": NOW + 31}),
        ("life", {"exp": NOW + 3700}),
        ("life", {"exp": NOW + 3700, "iat": None}),
        ("life", {"exp": NOW - 10, "iat": NOW}),
        ("audience", {"aud": "another"}),
        ("audience", {"aud": f"{AUDIENCE}.evil"}),
        ("issuer", {"iss": f"{URL}/"}),
        ("malformed", {"aud": None}),
        ("malformed", {"iss": None}),
        ("malformed", {"exp": None}),
        ("malformed", {"exp": "soon"}),
        ("malformed", {"exp": 10**400}),
        ("principal", {"sub": None}),
        ("principal", {"sub": ""}),
        ("principal", {"sub": "x" * 257}),
        ("principal", {"sub": "user\n1"}),
    ],
)
def test_a_claim_that_does_not_hold_is_refused_by_name(cause: str, claims: dict[str, Any]) -> None:
    """Each cause has a word of its own."""
    issuer = Issuer("ed-1")
    assert cause_of(tokens_of(issuer), issuer.token("ed-1", NOW, **claims)) == cause


@pytest.mark.parametrize("claims", [{"iat": NOW - 600, "exp": NOW - 29}, {"iat": NOW + 29, "exp": NOW + 600}])
def test_clocks_may_differ_by_the_leeway(claims: dict[str, Any]) -> None:
    """Thirty seconds, both ways."""
    issuer = Issuer("ed-1")
    assert tokens_of(issuer).principal(issuer.token("ed-1", NOW, **claims), AT) == "ada@example"


def test_a_token_of_another_key_or_algorithm_is_refused() -> None:
    """A stranger with the same key id; no algorithm; an HMAC; no key id; no token at all."""
    issuer, stranger = Issuer("rsa-1"), Issuer("rsa-1")
    tokens = tokens_of(issuer)
    claims = {"iss": URL, "aud": AUDIENCE, "sub": "user-1", "exp": NOW + 60}
    assert cause_of(tokens, stranger.token("rsa-1", NOW)) == "signature"
    assert cause_of(tokens, by_hand({"alg": "none", "kid": "rsa-1"}, claims)) == "signature"
    assert cause_of(tokens, by_hand({"alg": "HS256", "kid": "rsa-1"}, claims, b"x")) == "signature"
    assert cause_of(tokens, by_hand({"alg": "RS256"}, claims, b"x")) == "signature"
    assert cause_of(tokens, "no token") == "malformed"
    assert cause_of(tokens, "x" * 8193) == "malformed"


def test_a_key_that_is_added_counts_after_the_next_fetch() -> None:
    """Rotation of the issuer; a key that it withdrew counts no more."""
    issuer = Issuer("ed-1")
    tokens = tokens_of(issuer)
    issuer.add("ed-2")
    token = issuer.token("ed-2", NOW)
    assert cause_of(tokens, token) == "signature"
    asyncio.run(tokens._keys.look())
    assert tokens.principal(token, AT) == "ada@example"
    withdrawn = issuer.token("ed-1", NOW)
    del issuer.keys["ed-1"]
    asyncio.run(tokens._keys.look())
    assert cause_of(tokens, withdrawn) == "signature"


async def test_a_token_asks_for_keys_that_could_not_be_fetched_yet() -> None:
    """The issuer was away at the start: the next fetch does not wait for the usual interval."""
    issuer, fetched = Issuer("ed-1"), asyncio.Event()

    async def away() -> bytes:
        fetched.set()
        raise OSError("no route")

    keys = KeySource(
        away,
        frozenset({"EdDSA"}),
        SteppedClock(),
        refresh=timedelta(hours=1),
        kept_for=timedelta(hours=1),
        report=lambda *_: None,
    )
    await keys.look()
    tokens = UserTokens(keys, UserRules(URL, AUDIENCE, "sub", timedelta(seconds=30), timedelta(hours=1)))
    assert not keys.wanted
    assert cause_of(tokens, issuer.token("ed-1", NOW)) == "issuer_away"
    assert (fetched.is_set(), keys.wanted) == (True, True)
