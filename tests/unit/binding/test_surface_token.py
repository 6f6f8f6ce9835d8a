"""Signed tokens: surfaces."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, sign_token, verify_token
from sidecar.core.identifiers import Digest, EpisodeId, Principal, TurnId
from subagents_errors import SurfaceTokenInvalid

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEYS = SigningKeys({"k1": b"1" * 32}, "k1")
CLAIMS = SurfaceClaims(
    turn_id=TurnId("t"),
    episode_id=EpisodeId("e"),
    principal=Principal("user-1"),
    source="chat",
    locale=None,
    location="Chicago, IL",
    date="2026-11-21",
    orchestrator_digest=Digest("sha256:0"),
    tools=(),
    candidates=(),
    versions=("1", "2", "3"),
    flags=("f",),
    arm="",
    previous=None,
    fan_out_cap=3,
    max_dispatches=4,
    bound_at=NOW,
    expires_at=NOW + timedelta(minutes=15),
)


def test_a_token_gives_back_what_was_sealed() -> None:
    """Also in another process with the same key."""
    assert verify_token(sign_token(CLAIMS, KEYS), SigningKeys({"k1": b"1" * 32}, "k1")) == CLAIMS


@given(st.data())
def test_no_altered_token_is_honoured(data: st.DataObject) -> None:
    """Any one character changed, anywhere, in any way that base64 or JSON might forgive."""
    token = sign_token(CLAIMS, KEYS)
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda sign: sign != token[place]))

    with pytest.raises(SurfaceTokenInvalid):
        verify_token(token[:place] + other + token[place + 1 :], KEYS)


@given(st.text())
def test_no_made_up_token_is_honoured(text: str) -> None:
    """Whatever it is, it is refused and nothing else happens."""
    with pytest.raises(SurfaceTokenInvalid):
        verify_token(text, KEYS)


def test_keys_rotate() -> None:
    """A token of the old key is honoured while the old key is kept, and not after."""
    token = sign_token(CLAIMS, KEYS)

    assert verify_token(token, SigningKeys({"k1": b"1" * 32, "k2": b"2" * 32}, "k2")) == CLAIMS
    with pytest.raises(SurfaceTokenInvalid):
        verify_token(token, SigningKeys({"k2": b"2" * 32}, "k2"))
    with pytest.raises(SurfaceTokenInvalid):
        verify_token(token, SigningKeys({"k1": b"2" * 32}, "k1"))


def test_what_is_signed_for_another_purpose_is_no_surface_token() -> None:
    """The same claims under the same key."""
    signed = KEYS.sign("another", msgspec.json.encode(CLAIMS))

    assert verify_token(KEYS.sign("surface", msgspec.json.encode(CLAIMS)), KEYS) == CLAIMS
    with pytest.raises(SurfaceTokenInvalid):
        verify_token(signed, KEYS)


@pytest.mark.parametrize(("keys", "signing"), [({"k": b"short"}, "k"), ({"k": b"1" * 32}, "other"), ({}, "k")])
def test_unusable_keys_stop_the_start(keys: dict[str, bytes], signing: str) -> None:
    """Too short, or none to sign with."""
    with pytest.raises(ValueError, match="key"):
        SigningKeys(keys, signing)
