"""What checkpointing and retention need from outside: a key that signs, and a second place."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol

import msgspec

from sidecar.core.journal.appends import RootState
from sidecar.core.signatures import Signer
from sidecar.core.verifying.lines import RootKey, Statement

CheckpointSigner = Signer
"""The port is what the core needs to make a signed line or marker; see there."""


class PlaceUnavailable(Exception):
    """The second place could not be written or read; says which and why."""


class Standing(msgspec.Struct, frozen=True):
    """What the end of a second place says.

    Attributes:
        roots: the statement about each running root that reaches furthest.
        since: the place looked back to this day; what is older was signed before. None: it looked at everything.
    """

    roots: Mapping[RootKey, RootState]
    since: date | None = None


class CheckpointPlace(Protocol):
    """Keeps signed lines outside the database; nothing is ever changed or removed there."""

    async def standing(self) -> Standing:
        """Return how far the statements reach, as far as the place looks back.

        Raises:
            PlaceUnavailable: it cannot be read.
        """

    async def append(self, statements: Sequence[Statement]) -> None:
        """Sign the statements, link each to the line before it, and return when they are durable.

        Raises:
            PlaceUnavailable: it cannot be confirmed; appending the same again is harmless.
        """
