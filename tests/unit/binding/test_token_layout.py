"""What a token looks like to the byte: processes of two versions read each other's during an upgrade."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest

from sidecar.core.binding.surface_token import LONGEST, SigningKeys, verify_token
from sidecar.core.errors import SurfaceTokenInvalid

SECRET = b"1" * 32
KEYS = SigningKeys({"k1": SECRET, "k2": b"2" * 32}, "k1")


def spelled(body: bytes, purpose: str = "surface", key_id: str = "k1") -> str:
    """Return a token as the documentation of its layout says, made with the standard library alone."""
    head = f"v1.{key_id}.{urlsafe_b64encode(body).decode().rstrip('=')}"
    mac = hmac.digest(SECRET, f"{purpose}\x1f{head}".encode(), sha256)
    return f"{head}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff\xfe", b"a longer body"])
def test_a_token_is_spelled_as_documented(body: bytes) -> None:
    """Signed by the signing key, opened by each that knows the key, for this purpose only."""
    assert KEYS.sign("surface", body) == spelled(body)
    assert KEYS.open("surface", spelled(body)) == body
    assert KEYS.open("another", spelled(body)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        "v2." + spelled(b"{}").partition(".")[2],
        spelled(b"{}", key_id="k3"),
        spelled(b"{}", key_id="k2"),
        spelled(b"{}") + ".more",
        spelled(b"{}").rpartition(".")[0],
        spelled(b"{}").rpartition(".")[0] + ".",
        spelled(b"{}").rpartition(".")[0] + ".é",
        spelled(b"{}").rpartition(".")[0] + ".====",
        "",
        "...",
    ],
)
def test_every_part_of_a_token_has_to_be_ours(wrong: str) -> None:
    """Another version, an unknown key, another key's signature, a part too many or too few, a broken signature."""
    assert KEYS.open("surface", wrong) is None


def test_a_body_that_is_not_base64_is_refused_even_if_it_is_signed() -> None:
    """The signature is over the text."""
    head = "v1.k1.*"
    mac = urlsafe_b64encode(hmac.digest(SECRET, f"surface\x1f{head}".encode(), sha256)).decode().rstrip("=")
    assert KEYS.open("surface", f"{head}.{mac}") is None


def test_a_token_may_be_64_kib_and_no_longer() -> None:
    """Exactly as long as allowed is read, one character more is not."""
    bodies = (b"x" * size for size in range(49_000, 50_000))
    by_length = {len(token): token for token in map(spelled, bodies) if LONGEST - 4 < len(token) <= LONGEST + 4}
    longest = max(length for length in by_length if length <= LONGEST)

    assert LONGEST == longest == 65_536
    assert all((KEYS.open("surface", token) is not None) == (length <= LONGEST) for length, token in by_length.items())
    assert max(by_length) > LONGEST


def test_a_key_has_32_bytes_or_more() -> None:
    """31 are refused, and every key that is too short is named, sorted; so is a signing key that is not there."""
    with pytest.raises(ValueError, match=r"^keys need 32 bytes or more; too short: a, b$"):
        SigningKeys({"k": SECRET, "b": b"1" * 31, "a": b""}, "k")
    with pytest.raises(ValueError, match=r"^the signing key 'x' is not among the keys$"):
        SigningKeys({"k": SECRET}, "x")


def test_the_keys_of_a_process_are_its_own() -> None:
    """What changes in the caller's mapping afterwards changes nothing."""
    given = {"k1": SECRET}
    keys = SigningKeys(given, "k1")
    given.clear()
    assert keys.sign("surface", b"{}") == spelled(b"{}")


def test_a_refused_token_says_what_to_do() -> None:
    """One that is not ours, and one of a version whose claims are others."""
    with pytest.raises(SurfaceTokenInvalid) as refused:
        verify_token("x", KEYS)
    assert str(refused.value) == "the surface token is not one of this deployment; send the one BindTurn returned"
    with pytest.raises(SurfaceTokenInvalid) as refused:
        verify_token(spelled(b"{}"), KEYS)
    assert str(refused.value) == "the surface token is of another version; bind the turn again"
