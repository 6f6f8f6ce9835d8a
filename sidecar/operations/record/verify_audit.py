"""Verifies the audit of rollouts: its chain, its markers and its signatures.

Rows may be added during the verification.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from sidecar.core.signatures import SignatureVerifier, Verification
from sidecar.core.verifying.audit_chain import AuditHead, AuditRemoved
from sidecar.core.verifying.audit_walk import AuditWalk
from sidecar.core.verifying.checkpoint_lines import CheckpointClaims
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.operations.record.checkpoint_ports import AuditChain

PAGE: Final = 500
"""Rows in one read."""


class AuditVerification:
    """One verification.

    Args:
        audit: what to verify.
        claims: the statements in the second place.
        judge: has the public keys; None: markers are not verified.

    Attributes:
        rows: number of verified rows.
        unsigned: how many of them come after the newest checkpoint.
    """

    def __init__(self, audit: AuditChain, claims: CheckpointClaims, judge: SignatureVerifier | None) -> None:
        self._audit = audit
        self._claims = claims
        self._judge = judge
        self.rows = 0
        self.unsigned = 0

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield every problem. The head is read first, then the markers, then the rows.

        In this order, rows that are added during the verification cannot look like missing ones.
        """
        head, markers = await self._audit.audit_head(), await self._audit.audit_markers()
        for marker in markers:
            if not self._is_valid(marker):
                text = f"the marker of retention of the audit of rollouts up to row {marker.number}"
                yield Finding(FindingKind.MARKER_FORGED, f"{text} was forged or altered", sequence=marker.number)
        walk = AuditWalk(self._removed(markers), self._claims.audit_links)
        for finding in walk.begin():
            yield finding
        while rows := await self._audit.linked_audit(walk.number, PAGE):
            for row in rows:
                # A gap may come from a retention that ran after the markers were read: read them again.
                if row.number != walk.number + 1:
                    removed = self._removed(await self._audit.audit_markers())
                    # Only a marker that ends right before this row explains the gap; any other gap is a finding.
                    if removed.number + 1 == row.number:
                        walk.continue_after(removed)
                for finding in walk.take(row):
                    yield finding
        # Rows may have been added since the first head. The last of them is compared with a head that is read after it.
        newest, removed = await self._audit.audit_head(), self._removed(await self._audit.audit_markers())
        if removed.number > walk.number:  # retention has removed all rows that existed at the begin
            walk.continue_after(removed)
        for finding in walk.end(head, newest):
            yield finding
        self.rows, self.unsigned = walk.rows, walk.unsigned

    def _is_valid(self, marker: AuditRemoved) -> bool:
        """Return whether a sidecar has signed the marker; without keys, every marker counts."""
        if self._judge is None:
            return True
        return self._judge.judge(marker.key_id, marker.signed_bytes(), marker.signature) is Verification.FITS

    def _removed(self, markers: Sequence[AuditRemoved]) -> AuditHead:
        """Return the last row that retention has removed, according to valid markers."""
        heads = [AuditHead(marker.number, marker.link) for marker in markers if self._is_valid(marker)]
        return max(heads, key=lambda head: head.number, default=AuditHead())
