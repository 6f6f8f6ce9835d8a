"""The chain of the audit of rollouts: each row is linked to the row before it, and the newest link is signed."""

from hashlib import sha256
from typing import Protocol

import msgspec


class AuditHead(msgspec.Struct, frozen=True):
    """The head of the chain: number and link of the newest row; 0 and no link before the first one."""

    number: int = 0
    link: str = ""


class LinkedRow(msgspec.Struct, frozen=True):
    """A stored row.

    Attributes:
        body: JSON text.
        link: see `audit_link`.
    """

    number: int
    slot: str
    kind: str
    body: str
    link: str


class AuditRemoved(Protocol):
    """A signed marker of rows that retention has removed, up to `number`; `link` is that of the last of them."""

    @property
    def number(self) -> int:
        """Number of the last removed row."""

    @property
    def link(self) -> str:
        """Link of the last removed row."""

    @property
    def key_id(self) -> str:
        """Id of the key that signed the marker."""

    @property
    def signature(self) -> str:
        """Signature over `signed_bytes`, in hex."""

    def signed_bytes(self) -> bytes:
        """Return what the signature covers."""


def audit_link(previous: str, number: int, slot: str, kind: str, body: str) -> str:
    """Return the link of a row that follows the row with the link `previous`; 64 hex digits."""
    # The prefix keeps these hashes apart from those of facts. MessagePack stores lengths, so no two different rows have
    # the same bytes.
    return sha256(b"audit\x1f" + msgspec.msgpack.encode((previous, number, slot, kind, body))).hexdigest()
