"""Decides which users are inside a ramp, by a versioned function of our own, so that a library update moves no user.

`b1`: h is the first 8 bytes, unsigned big-endian, of SHA-256 over UTF-8 `b1`, 0x1f, salt, 0x1f, key; a key is inside
a ramp of `basis_points` iff `(h * 10000) >> 64 < basis_points`. Raising a ramp therefore only adds keys.

Source: PF1-D-66.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

WHOLE: Final = 10_000
"""All users, in basis points."""

VERSION: Final = "b1"

GOLDEN: Final[tuple[tuple[str, str, int], ...]] = (
    ("shop-2026", "user-1", 4381),
    ("shop-2026", "user-2", 4176),
    ("", "", 5832),
    ("salt", "ключ", 8428),
    ("salt", "a" * 300, 4572),
)
"""(salt, key, bucket): checked at start, so that no change moves users silently."""


def bucket_of(salt: str, key: str) -> int:
    """Return the bucket of a key, 0 to 9999; about 1 µs."""
    digest = sha256(f"{VERSION}\x1f{salt}\x1f{key}".encode()).digest()
    # A multiplication and a shift instead of a modulo: each bucket has the same share of hashes, and a raised ramp
    # keeps its users.
    return (int.from_bytes(digest[:8], "big") * WHOLE) >> 64


def in_ramp(salt: str, key: str, basis_points: int) -> bool:
    """Return whether a ramp includes a key. An empty key is outside, even at 100 % (DESIGN section 8)."""
    return bool(key) and bucket_of(salt, key) < basis_points


def moved_buckets(golden: Iterable[tuple[str, str, int]] = GOLDEN) -> tuple[str, ...]:
    """Return the golden vectors that do not match. A sidecar that would move users must not start."""
    return tuple(
        f"bucketing {VERSION}: key {key[:20]!r} with salt {salt!r} is in {bucket_of(salt, key)}, not in {bucket}"
        for salt, key, bucket in golden
        if bucket_of(salt, key) != bucket
    )
