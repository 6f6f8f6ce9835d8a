"""Statements that read rollouts, their audit events and the embedded flags; SQLite and PostgreSQL share them.

The functions are generators (`Steps`). Each yields one statement with its values, receives rows, and returns objects.
Outside a transaction, PostgreSQL may run two statements on different connections, which do not see the same state.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from sidecar.adapters.statements import Steps, value
from sidecar.core.decoding import JsonDecoder
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.rollout.audit.retention import LARGEST_REMOVAL, OldAudit, old_audit_of
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import ANSWERS, DEFINITIONS, FLAGS, MARKERS, ROLLOUTS, audit_body
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow, KeptDefinition, StoredAnswer, StoredFlag

Kind = TypeVar("Kind")

AUDIT: Final = (
    "select a.number, a.slot, a.kind, a.body, t.effective_at, u.number is null from rollout_audit a"
    " left join rollout_transitions t on t.number = a.number left join rollout_unexported u on u.number = a.number"
)
OLD: Final = """
select number, body, link from rollout_audit
where number < coalesce((select min(number) from rollout_audit where at >= $1), 9223372036854775807)
  and number < coalesce((select min(number) from rollout_unexported), 9223372036854775807)
order by number limit $2
"""
"""Old rows, up to the first that is not old or that a sink lacks. The rows form a hash chain, of which only the
beginning may be removed, and times need not have the order of the numbers."""
LINKED: Final = "select number, slot, kind, body, link from rollout_audit where number > $1 order by number limit $2"


def version() -> Steps[int]:
    """Return the version of the store, which every change of a rollout, flag or stored definition increases."""
    newest: int = yield from value("select version from rollout_version")
    return newest


def rollouts() -> Steps[Sequence[SlotRollout]]:
    """Return all rollouts, by slot."""
    return (yield from _all(ROLLOUTS, "select body from rollouts order by slot"))


def rollout(slot: Slot) -> Steps[SlotRollout | None]:
    """Return the rollout of one slot; None: it has none."""
    return (yield from _one(ROLLOUTS, "select body from rollouts where slot = $1", slot))


def answer(request_id: str) -> Steps[StoredAnswer | None]:
    """Return the stored answer to a request; None: the request id was not used."""
    return (yield from _one(ANSWERS, "select body from rollout_answers where request_id = $1", request_id))


def definition(digest: Digest) -> Steps[KeptDefinition | None]:
    """Return a stored definition."""
    return (yield from _one(DEFINITIONS, "select body from kept_definitions where digest = $1", digest))


def flags() -> Steps[Sequence[StoredFlag]]:
    """Return the embedded flags, by name."""
    return (yield from _all(FLAGS, "select body from rollout_flags order by name"))


def flag(name: str) -> Steps[StoredFlag | None]:
    """Return one embedded flag."""
    return (yield from _one(FLAGS, "select body from rollout_flags where name = $1", name))


def audit(query: AuditQuery, time: Callable[[Any], datetime]) -> Steps[Sequence[AuditRow]]:
    """Return audit rows, oldest first.

    Args:
        query: selects the rows; None in a field means any value.
        time: converts a time as the database returns it.
    """
    filters = (
        ("a.number >", query.after),
        ("a.slot =", query.slot),
        ("a.definition_id =", query.definition_id),
        ("a.at >=", query.since),
    )
    applied = [
        (condition, operand) for condition, operand in filters if operand is not None
    ]  # never empty: `after` is set
    conditions = " and ".join(f"{condition} ${place}" for place, (condition, _) in enumerate(applied, 1))
    statement = f"{AUDIT} where {conditions} order by a.number limit ${len(applied) + 1}"
    rows = yield (statement, *(operand for _, operand in applied), query.limit)
    return [_audit_row(row, time) for row in rows]


def unexported(limit: int, time: Callable[[Any], datetime]) -> Steps[Sequence[AuditRow]]:
    """Return audit rows that not every sink has received, oldest first."""
    # The condition drops rows that every sink has: the left join gives NULL for them.
    rows = yield (f"{AUDIT} where u.number > 0 order by u.number limit $1", limit)
    return [_audit_row(row, time) for row in rows]


def old_audit(before: datetime) -> Steps[OldAudit | None]:
    """Return the audit rows that retention may remove next; None: there are none.

    They are the oldest ones, are older than `before`, and every audit sink has received them.
    """
    rows = yield (OLD, before, LARGEST_REMOVAL)
    return old_audit_of([(number, body, link) for number, body, link in rows])


def audit_head() -> Steps[AuditHead]:
    """Return number and link of the newest audit row, the head of the hash chain."""
    rows = yield ("select last_number, last_link from rollout_version",)
    return AuditHead(*rows[0])


def linked_audit(after: int, limit: int) -> Steps[Sequence[LinkedRow]]:
    """Return at most `limit` audit rows after the number `after`, with their links, oldest first."""
    rows = yield (LINKED, after, limit)
    return [LinkedRow(*row) for row in rows]


def audit_markers() -> Steps[tuple[AuditMarker, ...]]:
    """Return the markers of all removed audit rows, oldest first."""
    return tuple((yield from _all(MARKERS, "select body from rollout_audit_markers order by number")))


def audit_marker(number: int) -> Steps[AuditMarker | None]:
    """Return the marker for the removal of rows up to the number `number`; None: there is none."""
    return (yield from _one(MARKERS, "select body from rollout_audit_markers where number = $1", number))


def _one(decoder: JsonDecoder[Kind], sql: str, key: str | int) -> Steps[Kind | None]:
    body = yield from value(sql, key)
    return None if body is None else decoder.decode(body)


def _all(decoder: JsonDecoder[Kind], sql: str) -> Steps[list[Kind]]:
    rows = yield (sql,)
    return [decoder.decode(body) for (body,) in rows]


def _audit_row(row: Sequence[Any], time: Callable[[Any], datetime]) -> AuditRow:
    number, slot, kind, body, effective_at, exported = row
    at = None if effective_at is None else time(effective_at)
    return AuditRow(number, Slot(slot), audit_body(kind, body), at, exported=bool(exported))
