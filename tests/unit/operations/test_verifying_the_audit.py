"""The audit of rollouts while a sidecar adds to it and shortens it: no finding; forged markers cover nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from sidecar.core.signatures import Verification
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow, audit_link
from sidecar.core.verifying.checkpoint_lines import CheckpointClaims
from sidecar.operations.record.verify_audit import AuditVerification


@dataclass(frozen=True)
class Marker:
    """Rows up to a number are gone."""

    number: int
    link: str
    key_id: str = "k1"
    signature: str = "ours"

    def signed_bytes(self) -> bytes:
        """Return anything."""
        return b""


class Judge:
    """Knows what is ours."""

    def judge(self, key_id: str, payload: bytes, signature: str) -> Verification:
        """Compare."""
        return Verification.FITS if signature == "ours" else Verification.DOES_NOT_FIT


@dataclass
class Audit:
    """A chain; `meanwhile` happens once, before the rows are read."""

    rows: list[LinkedRow] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    meanwhile: Callable[["Audit"], None] | None = None
    head: AuditHead = field(default_factory=AuditHead)

    def add(self, *bodies: str) -> "Audit":
        """Add rows."""
        for body in bodies:
            fields = self.head.number + 1, "search", "event", body
            self.head = AuditHead(self.head.number + 1, audit_link(self.head.link, *fields))
            self.rows.append(LinkedRow(*fields, self.head.link))
        return self

    def shorten(self, number: int, signature: str = "ours") -> "Audit":
        """Remove rows under a marker."""
        gone = [row for row in self.rows if row.number <= number]
        self.markers.append(Marker(number, gone[-1].link, signature=signature))
        self.rows = [row for row in self.rows if row.number > number]
        return self

    async def audit_head(self) -> AuditHead:
        """Return where it stands."""
        return self.head

    async def linked_audit(self, after: int, limit: int) -> Sequence[LinkedRow]:
        """Return the next rows."""
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile(self)
        return [row for row in self.rows if row.number > after][:limit]

    async def audit_markers(self) -> Sequence[Marker]:
        """Return every marker."""
        return tuple(self.markers)


async def kinds(audit: Audit) -> list[str]:
    """Return what is wrong with an audit."""
    return [each.kind async for each in AuditVerification(audit, CheckpointClaims(), Judge()).findings()]


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda audit: audit.add("d", "e"),
        lambda audit: audit.shorten(2),
        lambda audit: audit.add("d").shorten(3),
        lambda audit: audit.shorten(3),
    ],
)
async def test_what_a_sidecar_does_meanwhile_is_no_finding(meanwhile: Callable[[Audit], None]) -> None:
    """Rows come, and old ones go, after head and markers were read."""
    assert await kinds(Audit().add("a", "b", "c")) == []
    assert await kinds(Audit(meanwhile=meanwhile).add("a", "b", "c")) == []
    assert await kinds(Audit(meanwhile=meanwhile).add("z", "a", "b", "c").shorten(1)) == []


async def test_a_marker_that_others_signed_covers_nothing() -> None:
    """It is named, and so are the rows that are not there."""
    audit = Audit().add("a", "b", "c").shorten(2, "theirs")
    assert await kinds(audit) == ["marker_forged", "audit_missing"]
