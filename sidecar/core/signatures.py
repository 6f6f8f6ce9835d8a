"""Interfaces for signing, and the results of a verification."""

from enum import StrEnum, unique
from typing import Protocol


class Signer(Protocol):
    """Signs payloads. The key's id never changes."""

    @property
    def key_id(self) -> str:
        """Return the id of the key."""

    def sign(self, payload: bytes) -> str:
        """Return the signature in hex."""


@unique
class Verification(StrEnum):
    """The result of verifying a signature."""

    FITS = "fits"
    DOES_NOT_FIT = "does_not_fit"
    UNKNOWN_KEY = "unknown_key"


class SignatureVerifier(Protocol):
    """Verifies signatures with a set of public keys."""

    def judge(self, key_id: str, payload: bytes, signature: str) -> Verification:
        """Verify `signature` (hex) of the key over `payload`. Never raises."""
