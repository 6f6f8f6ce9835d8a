"""What checkpointing and retention need from outside: a key that signs, and a second place."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol

import msgspec

from sidecar.core.journal.appends import RootState
from sidecar.core.signatures import Signer
from sidecar.core.verifying.audit_chain import AuditHead, AuditRemoved, LinkedRow
from sidecar.core.verifying.checkpoint_lines import RootKey, Statement

CheckpointSigner = Signer
"""The port is what the core needs to make a signed line or marker; see there."""


class CheckpointStoreUnavailable(Exception):
    """The second place could not be written or read; says which and why."""


class Standing(msgspec.Struct, frozen=True):
    """What the end of a second place says.

    Attributes:
        roots: the statement about each running root that reaches furthest.
        audit: the one about the audit of rollouts.
        since: the place looked back to this day; what is older was signed before. None: it looked at everything.
    """

    roots: Mapping[RootKey, RootState]
    audit: AuditHead = AuditHead()
    since: date | None = None


class AuditChain(Protocol):
    """What signing and verifying need of the audit of rollouts. Every method raises `StoreUnavailable`."""

    async def audit_head(self) -> AuditHead:
        """Return where the chain of the audit stands."""

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows of the audit with their links."""

    async def audit_markers(self) -> Sequence[AuditRemoved]:
        """Return every marker of retention, oldest first."""


class CheckpointStore(Protocol):
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
