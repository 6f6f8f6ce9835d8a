"""What is said of the audit of rollouts, word for word."""

from collections.abc import Sequence

import msgspec
import pytest

from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow, audit_link
from sidecar.core.verifying.audit_walk import AuditWalk
from sidecar.core.verifying.findings import Finding, FindingKind

K = FindingKind


def chain(*bodies: str, after: AuditHead | None = None) -> list[LinkedRow]:
    """Return linked rows."""
    made, at = list[LinkedRow](), after or AuditHead()
    for body in bodies:
        fields = at.number + 1, "search", "event", body
        at = AuditHead(at.number + 1, audit_link(at.link, *fields))
        made.append(LinkedRow(*fields, at.link))
    return made


ROWS = chain("a", "b", "c", "d")
HEAD = AuditHead(4, ROWS[3].link)
ANEW = chain("a", "x", "c", "d")
SECOND = AuditHead(2, ROWS[1].link)


def but(row: LinkedRow, **fields: object) -> LinkedRow:
    """Return a row with some fields replaced."""
    return msgspec.structs.replace(row, **fields)


def altered(number: int) -> Finding:
    """Return a finding about a row."""
    text = f"row {number} of the audit of rollouts was altered: it and the row before do not give its link"
    return Finding(K.AUDIT_ALTERED, text, sequence=number)


def missing(which: str, number: int) -> Finding:
    """Return a finding about a gap."""
    return Finding(K.AUDIT_MISSING, f"rows {which} of the audit of rollouts are missing", sequence=number)


def cut(at: int, said: str) -> Finding:
    """Return a finding about the end."""
    text = f"the end of the audit of rollouts was cut off: it ends at row {at}, {said}"
    return Finding(K.AUDIT_MISSING, text, sequence=at + 1)


def contradicted(number: int, by: str = "the record") -> Finding:
    """Return a finding about what was signed."""
    text = f"row {number} of the audit of rollouts: {by} and a signed checkpoint differ"
    return Finding(K.AUDIT_CONTRADICTED, text, sequence=number)


def other_end(number: int) -> Finding:
    """Return a finding about the head."""
    text = f"row {number} of the audit of rollouts is not the one that the record says it ends with"
    return Finding(K.AUDIT_ALTERED, text, sequence=number)


@pytest.mark.parametrize(
    ("rows", "begin", "head", "claims", "findings"),
    [
        (ROWS, AuditHead(), HEAD, {}, []),
        (ROWS, AuditHead(), HEAD, {2: ROWS[1].link, 4: ROWS[3].link}, []),
        (ROWS[2:], SECOND, HEAD, {2: ROWS[1].link}, []),
        ([], AuditHead(), AuditHead(), {}, []),
        ([], SECOND, SECOND, {2: ROWS[1].link}, []),
        ([*ROWS[:2], but(ROWS[2], body="x"), ROWS[3]], AuditHead(), HEAD, {}, [altered(3)]),
        ([*ROWS[:2], but(ROWS[2], slot="x"), ROWS[3]], AuditHead(), HEAD, {}, [altered(3)]),
        ([*ROWS[:2], but(ROWS[2], kind="x"), ROWS[3]], AuditHead(), HEAD, {}, [altered(3)]),
        ([*ROWS[:2], but(ROWS[2], link="x"), ROWS[3]], AuditHead(), HEAD, {}, [altered(3), altered(4)]),
        ([*ROWS[:2], ROWS[3]], AuditHead(), HEAD, {}, [missing("3 to 3", 3)]),
        (ROWS[2:], AuditHead(), HEAD, {}, [missing("1 to 2", 1)]),
        (ROWS[:3], AuditHead(), HEAD, {}, [cut(3, "the record says 4")]),
        (ROWS[:3], AuditHead(), AuditHead(3, ROWS[2].link), {4: "x"}, [cut(3, "a signed checkpoint has 4")]),
        (chain("a", "b", "c", "x"), AuditHead(), HEAD, {}, [other_end(4)]),
        (ROWS, AuditHead(), AuditHead(3, ROWS[2].link), {}, [other_end(4)]),
        (
            chain("a", "x", "c", "d"),
            AuditHead(),
            AuditHead(4, chain("a", "x", "c", "d")[3].link),
            {2: "y"},
            [contradicted(2)],
        ),
        (ROWS[2:], SECOND, HEAD, {2: "y"}, [contradicted(2, "the marker of retention")]),
    ],
)
def test_the_audit_is_found_to_be_exactly_this(
    rows: Sequence[LinkedRow], begin: AuditHead, head: AuditHead, claims: dict[int, str], findings: list[Finding]
) -> None:
    """Whole, behind a marker, altered, with gaps, cut, contradicted."""
    walk = AuditWalk(begin, claims)
    found = [*walk.begin(), *(finding for row in rows for finding in walk.take(row)), *walk.end(head, head)]
    assert found == findings


def test_rows_that_come_while_it_is_read_are_no_finding() -> None:
    """The head is read before the rows and afterwards; retention removes the first two meanwhile."""
    walk = AuditWalk(AuditHead(), {})
    walk.continue_after(SECOND)
    assert [finding for row in ROWS[2:] for finding in walk.take(row)] == []
    assert list(walk.end(AuditHead(3, ROWS[2].link), HEAD)) == []
    assert list(walk.end(AuditHead(), AuditHead(9, "x"))) == []
    assert (walk.rows, walk.number, walk.unsigned) == (2, 4, 4)
