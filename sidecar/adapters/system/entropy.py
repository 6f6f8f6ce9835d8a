"""Ids and jitter from the operating system's entropy."""

import secrets
from random import SystemRandom
from typing import Final

ENTROPY_BYTES: Final = 16


class SystemIds:
    """128 random bits each: a child's id is part of no secret, but it must not be guessed or met twice."""

    def new(self, kind: str) -> str:
        """Return `<kind>-<22 characters>`."""
        return f"{kind}-{secrets.token_urlsafe(ENTROPY_BYTES)}"


class SystemChance:
    """Jitter."""

    def __init__(self) -> None:
        self._random = SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self._random.uniform(low, high)
