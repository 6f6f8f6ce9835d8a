"""Signed statements that an older backup of the record was restored, and which facts are lost by it.

A restored backup lacks facts that the checkpoints cover, as if the end of the record had been cut off. An operator can
state the restoration in a signed line of the second place. The verification then reports the gap as a notice, and
verifies all other facts as before.
"""

from collections.abc import Container, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from sidecar.core.identifiers import InstanceId
from sidecar.core.journal.appends import RootState
from sidecar.core.verifying.audit_chain import AuditHead
from sidecar.core.verifying.checkpoint_lines import (
    CheckpointClaims,
    RootKey,
    Statement,
    restored_audit_statement,
    restored_statement,
)
from sidecar.core.verifying.findings import Finding, FindingKind


class Gap(Struct, frozen=True):
    """The facts that a restored backup lacks.

    Attributes:
        statements: the statements about them, which are to be signed.
        lost: what is lost, in the words of the findings, one sentence for each statement.
        others: findings of the verification that an older backup does not explain.
    """

    statements: tuple[Statement, ...]
    lost: tuple[str, ...]
    others: tuple[Finding, ...]


class StandingRecord(Struct, frozen=True):
    """The end of a record: its running roots, and the newest row of the audit of rollouts."""

    roots: dict[RootKey, RootState]
    audit: AuditHead


def gap_of(findings: Sequence[Finding], record: StandingRecord, states: InstanceId, by: str, at: datetime) -> Gap:
    """Return what a restored backup lacks at the end of each running root and of the audit.

    Args:
        findings: the findings of a verification.
        record: the end of the verified record.
        states: the id of the process that writes the lines.
        by: the operator who makes the statement, and the reason.
        at: the time of the statement.
    """
    statements: list[Statement] = []
    lost: list[str] = []
    others: list[Finding] = []
    for finding in findings:
        # The sequence of such a finding is that of the first missing fact, so `left` facts are there.
        left = (finding.sequence or 1) - 1
        if finding.kind is FindingKind.ROOT_CUT and finding.day is not None:
            key = RootKey(finding.instance, finding.day)
            # The backup may be older than the whole root; then none of its facts is left.
            nothing = RootState(key.instance, key.day, 0, "")
            state = record.roots.get(key, nothing)
            # An older backup explains a gap only at the end, and only if the record ends exactly where the gap begins.
            # Anything else is a manipulation.
            if state.number == left:
                statements.append(restored_statement(state, by, at))
                lost.append(finding.text)
                continue
        # The same for the audit: a gap before its newest row is a manipulation, too.
        elif finding.kind is FindingKind.AUDIT_MISSING and record.audit.number == left:
            statements.append(restored_audit_statement(record.audit, states, by, at))
            lost.append(finding.text)
            continue
        others.append(finding)
    return Gap(tuple(statements), tuple(lost), tuple(others))


def restored_notices(claims: CheckpointClaims, erasures: Container[str]) -> Iterator[str]:
    """Yield one sentence for each loss by a restored backup.

    Args:
        claims: the content of the signed lines in the second place.
        erasures: the ids of the erasures whose markers are in the record.
    """
    for key, line in sorted(claims.restored.items()):
        # From `roots` and not from `of`, which leaves out the claims about the lost facts.
        signed = max(claims.roots.get(key, ()), default=0)
        if signed > line.number:
            what = f"facts {line.number + 1} to {signed} of instance {key.instance} in turns of {key.day} are lost"
            yield f"{what}: a backup was restored, as {line.marker} stated at {line.time:%Y-%m-%d %H:%M} UTC"
    for line, signed in claims.restored_audit:
        what = f"rows {line.number + 1} to {signed} of the audit of rollouts are lost"
        yield f"{what}: a backup was restored, as {line.marker} stated at {line.time:%Y-%m-%d %H:%M} UTC"
    # The backup is older than these erasures, so it has the erased texts again.
    undone = [marker for marker in claims.erased if marker not in erasures]
    if undone and (claims.restored or claims.restored_audit):
        yield f"{len(undone)} erasures are not in the restored record, and their texts are back: erase again"
