"""The marker that remains of removed audit rows. Source: PF1-NFR-3, SX-38."""

from datetime import datetime

import msgspec

from sidecar.core.rollout.facts import SlotRollout


class AuditMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Retention removed the audit rows up to `number`.

    Attributes:
        number, rows, content: number of the last removed row, how many rows were removed, and their hash, as in
            `audit/retention.OldAudit`.
        before: every removed row is older than this.
        link: link of the last removed row; the chain of the remaining rows continues from it.
        standing: the state of the affected rollouts after the last removed row; the remaining rows build on it.
        signature: of the sidecar's checkpoint key over the other fields, in hex.
    """

    number: int
    rows: int
    content: str
    link: str
    before: datetime
    made_at: datetime
    standing: tuple[SlotRollout, ...] = ()
    key_id: str
    signature: str

    def signed_bytes(self) -> bytes:
        """Return the signed bytes: a separate prefix, then every other field, in order, as JSON."""
        return b"rollout-audit\x1f" + msgspec.json.encode(msgspec.structs.astuple(self)[:-1])
