"""What checkpointing and retention need from outside: a key that signs, and a second place."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sidecar.core.executing.checkpoints import Signer, Statement
from sidecar.core.executing.stored_record import ClosedState
from sidecar.core.identifiers import InstanceId

CheckpointSigner = Signer
"""The port is what the core needs to make a signed line or marker; see there."""


class PlaceUnavailable(Exception):
    """The second place could not be written or read; says which and why."""


class CheckpointPlace(Protocol):
    """Keeps signed lines outside the database; nothing is ever changed or removed there."""

    async def standing(self) -> Mapping[InstanceId, ClosedState]:
        """Return the statement about each instance that reaches furthest, as far as the place looks back.

        Raises:
            PlaceUnavailable: it cannot be read.
        """

    async def append(self, statements: Sequence[Statement]) -> None:
        """Sign the statements, link each to the line before it, and return when they are durable.

        Raises:
            PlaceUnavailable: it cannot be confirmed; appending the same again is harmless.
        """
