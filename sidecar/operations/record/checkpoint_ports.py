"""What checkpointing, retention and verification need: a signing key, and a store for signed lines.

The store is outside the database, because a person who can change the database must not be able to change the lines.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Protocol

import msgspec

from sidecar.core.journal.appends import RootState
from sidecar.core.signatures import Signer
from sidecar.core.verifying.audit_chain import AuditHead, AuditRemoved, LinkedRow
from sidecar.core.verifying.checkpoint_lines import RootKey, Statement

CheckpointSigner = Signer
"""The port is the core's protocol for a signing key; see `Signer`."""


class CheckpointStoreUnavailable(Exception):
    """The checkpoint store could not be read or written; the message names the file and the cause."""


class CheckpointHead(msgspec.Struct, frozen=True):
    """The newest statements of a checkpoint store.

    Attributes:
        roots: the newest signed state of each running root.
        audit: the newest signed head of the audit of rollouts.
        since: the first day whose lines were read, so that a root of an earlier day counts as signed. None: all lines
            were read.
    """

    roots: Mapping[RootKey, RootState]
    audit: AuditHead = AuditHead()
    # A store may read only its newest lines at a start: the file grows for years.
    since: date | None = None


class AuditChain(Protocol):
    """The hash chain of the rollout audit, for signing and verifying. Every method may raise `StoreUnavailable`."""

    async def audit_head(self) -> AuditHead:
        """Return number and link of the newest row."""

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return at most `limit` rows with numbers above `after`, in the order of their numbers, with their links."""

    async def audit_markers(self) -> Sequence[AuditRemoved]:
        """Return every marker of retention, oldest first."""


class CheckpointStore(Protocol):
    """Stores signed lines outside the database, append-only."""

    async def standing(self) -> CheckpointHead:
        """Return the newest statements, from the lines that the store reads at a start.

        Raises:
            CheckpointStoreUnavailable: the store cannot be read.
        """

    async def append(self, statements: Sequence[Statement]) -> None:
        """Sign the statements, link each to the line before it, and return when they are durable.

        Raises:
            CheckpointStoreUnavailable: the write is not confirmed; appending the same statements again is safe.
        """
