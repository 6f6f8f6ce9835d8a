"""Iterates over the chain of the audit of rollouts, and reports its problems.

`verify-log` reads the chain in portions, because it may be longer than the memory.
"""

from collections.abc import Iterator, Mapping

from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow, audit_link
from sidecar.core.verifying.findings import Finding, FindingKind


class AuditWalk:
    """Verifies the stored rows in order.

    Args:
        begin: the last row that retention has removed.
        claims: links in signed checkpoints, by number.

    Attributes:
        rows: number so far.
    """

    def __init__(self, begin: AuditHead, claims: Mapping[int, str]) -> None:
        self._at = begin
        self._claims = claims
        self._contradicted = False
        self.rows = 0

    def begin(self) -> Iterator[Finding]:
        """Yield the problems of the starting point."""
        # A marker could name any link: if a checkpoint covers its last row, both must agree.
        yield from self._against_claims("the marker of retention")

    def take(self, row: LinkedRow) -> Iterator[Finding]:
        """Yield the problems of the next row."""
        self.rows += 1
        if row.number != self._at.number + 1:
            text = f"rows {self._at.number + 1} to {row.number - 1} of the audit of rollouts are missing"
            yield Finding(FindingKind.AUDIT_MISSING, text, sequence=self._at.number + 1)
        elif audit_link(self._at.link, row.number, row.slot, row.kind, row.body) != row.link:
            text = f"row {row.number} of the audit of rollouts was altered: it and the row before do not give its link"
            yield Finding(FindingKind.AUDIT_ALTERED, text, sequence=row.number)
        # Continue with the stored link even after a finding: each further row is judged against its neighbour, so one
        # altered row does not make all later ones look altered.
        self._at = AuditHead(row.number, row.link)
        yield from self._against_claims("the record")

    def continue_after(self, removed: AuditHead) -> None:
        """Continue after the rows that retention has removed in the meantime."""
        self._at = removed

    def end(self, head: AuditHead, again: AuditHead) -> Iterator[Finding]:
        """Yield what is missing at the end.

        Args:
            head: the head of the chain before the rows were read.
            again: the head afterwards; equal unless rows were added in the meantime.
        """
        there, signed = self._at.number, max(self._claims, default=0)
        # Rows may be appended while the chain is read; then only the head that was read afterwards can cover them.
        stands = head if head.number >= there else again
        # `head` was read before the rows, so every row that it counts must have been found.
        if signed > there or head.number > there:
            said = f"a signed checkpoint has {signed}" if signed > there else f"the record says {head.number}"
            text = f"the end of the audit of rollouts was cut off: it ends at row {there}, {said}"
            yield Finding(FindingKind.AUDIT_MISSING, text, sequence=there + 1)
        elif stands.number < there or (stands.number == there and stands.link != self._at.link):
            text = f"row {there} of the audit of rollouts is not the one that the record says it ends with"
            yield Finding(FindingKind.AUDIT_ALTERED, text, sequence=there)

    @property
    def number(self) -> int:
        """The number of the newest row so far."""
        return self._at.number

    @property
    def unsigned(self) -> int:
        """The number of rows after the newest checkpoint."""
        return max(0, self._at.number - max(self._claims, default=0))

    def _against_claims(self, by: str) -> Iterator[Finding]:
        number, link = self._at.number, self._at.link
        if not self._contradicted and self._claims.get(number, link) != link:
            # Reported once: after the first contradiction, every later checkpoint contradicts as well.
            self._contradicted = True
            text = f"row {number} of the audit of rollouts: {by} and a signed checkpoint differ"
            yield Finding(FindingKind.AUDIT_CONTRADICTED, text, sequence=number)
