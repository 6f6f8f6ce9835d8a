"""What stays of audit rows that retention removed. Source: PF1-NFR-3, SX-38."""

from datetime import datetime

import msgspec

from sidecar.core.rollout.facts import SlotRollout


class AuditMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Audit rows up to `number` were removed because they were old enough.

    Attributes:
        before: everything removed had happened before.
        link: of the last of them; the chain of the rows that are kept goes on from there.
        standing: the rollouts that the removed rows were about, as they stood after the last of them: from there the
            rows that are kept go on.
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
        """Return what the signature covers: every other field, in order, as JSON, after a prefix of its own."""
        return b"rollout-audit\x1f" + msgspec.json.encode(msgspec.structs.astuple(self)[:-1])
