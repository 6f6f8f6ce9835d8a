"""Reads rollouts, inside a transaction of one of the engine's threads."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import apsw

from sidecar.core.identifiers import Digest, InstanceId, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.verifying.audit_chain import AuditHead, LinkedRow
from sidecar.operations.rollout.audit.retention import LARGEST_REMOVAL, OldAudit, old_audit_of
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import (
    ANSWERS,
    DEFINITIONS,
    FLAGS,
    MARKERS,
    PINNED,
    ROLLOUTS,
    audit_body,
)
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow, KeptDefinition, StoredAnswer, StoredFlag
from sidecar.operations.rollout.store.replicas import Replica

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

ROWS: Final = (
    "SELECT a.number, a.slot, a.kind, a.body, t.effective_at, u.number IS NULL FROM rollout_audit a"
    " LEFT JOIN rollout_transitions t ON t.number = a.number LEFT JOIN rollout_unexported u ON u.number = a.number"
)


def microseconds(time: datetime) -> int:
    """Return a time as a number that can be compared."""
    return (time - EPOCH) // MICROSECOND


def found(connection: apsw.Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a statement gives."""
    return connection.execute(statement, values).fetchall()


def version_in(connection: apsw.Connection) -> int:
    """Return the newest version."""
    version: int = connection.execute("SELECT version FROM rollout_version").get
    return version


def rollouts_in(connection: apsw.Connection) -> list[SlotRollout]:
    """Return all rollouts, by slot."""
    return [ROLLOUTS.decode(body) for (body,) in connection.execute("SELECT body FROM rollouts ORDER BY slot")]


def rollout_in(connection: apsw.Connection, slot: Slot) -> SlotRollout | None:
    """Return one rollout."""
    body = connection.execute("SELECT body FROM rollouts WHERE slot = ?", (slot,)).get
    return None if body is None else ROLLOUTS.decode(body)


def answer_in(connection: apsw.Connection, request_id: str) -> StoredAnswer | None:
    """Return the stored answer to a request."""
    body = connection.execute("SELECT body FROM rollout_answers WHERE request_id = ?", (request_id,)).get
    return None if body is None else ANSWERS.decode(body)


def audit_in(connection: apsw.Connection, query: AuditQuery) -> list[AuditRow]:
    """Return audit rows, oldest first."""
    wanted, values = ["a.number > ?"], [query.after]
    asked: list[tuple[str, Any]] = [
        ("a.slot = ?", query.slot),
        ("a.definition_id = ?", query.definition_id),
        ("a.at >= ?", None if query.since is None else microseconds(query.since)),
    ]
    for condition, value in asked:
        if value is not None:
            wanted.append(condition)
            values.append(value)
    statement = f"{ROWS} WHERE {' AND '.join(wanted)} ORDER BY a.number LIMIT ?"
    return [_row(each) for each in found(connection, statement, *values, query.limit)]


def unexported_in(connection: apsw.Connection, limit: int) -> list[AuditRow]:
    """Return audit rows that have not been handed on, oldest first."""
    return [_row(each) for each in found(connection, f"{ROWS} WHERE u.number > 0 ORDER BY u.number LIMIT ?", limit)]


def definition_in(connection: apsw.Connection, digest: Digest) -> KeptDefinition | None:
    """Return a kept definition."""
    body = connection.execute("SELECT body FROM kept_definitions WHERE digest = ?", (digest,)).get
    return None if body is None else DEFINITIONS.decode(body)


def flags_in(connection: apsw.Connection) -> list[StoredFlag]:
    """Return the embedded flags, by name."""
    return [FLAGS.decode(body) for (body,) in connection.execute("SELECT body FROM rollout_flags ORDER BY name")]


def flag_in(connection: apsw.Connection, name: str) -> StoredFlag | None:
    """Return one embedded flag."""
    body = connection.execute("SELECT body FROM rollout_flags WHERE name = ?", (name,)).get
    return None if body is None else FLAGS.decode(body)


def replicas_in(connection: apsw.Connection, since: datetime) -> list[Replica]:
    """Return the last publication of each process that has or had the file, if it is not older than `since`."""
    asked = "SELECT instance_id, version, seen_at, pinned FROM rollout_replicas WHERE seen_at >= ? ORDER BY instance_id"
    return [
        Replica(InstanceId(instance), version, _time(seen_at), alive=False, pinned=PINNED.decode(pinned))
        for instance, version, seen_at, pinned in connection.execute(asked, (microseconds(since),))
    ]


def old_audit_in(connection: apsw.Connection, before: datetime) -> OldAudit | None:
    """Return the rows that may be removed; see the port."""
    young = connection.execute("SELECT min(number) FROM rollout_audit WHERE at >= ?", (microseconds(before),)).get
    waiting = connection.execute("SELECT min(number) FROM rollout_unexported").get
    ends = [each for each in (young, waiting) if each is not None]
    rows = found(
        connection,
        "SELECT number, body, link FROM rollout_audit WHERE ? IS NULL OR number < ? ORDER BY number LIMIT ?",
        *(min(ends, default=None), min(ends, default=None), LARGEST_REMOVAL),
    )
    return old_audit_of([(number, body, link) for number, body, link in rows])


def audit_head_in(connection: apsw.Connection) -> AuditHead:
    """Return the head of the audit's chain."""
    return AuditHead(*found(connection, "SELECT last_number, last_link FROM rollout_version")[0])


def linked_audit_in(connection: apsw.Connection, after: int, limit: int) -> list[LinkedRow]:
    """Return the next rows with their links."""
    asked = "SELECT number, slot, kind, body, link FROM rollout_audit WHERE number > ? ORDER BY number LIMIT ?"
    return [LinkedRow(*row) for row in found(connection, asked, after, limit)]


def markers_in(connection: apsw.Connection) -> tuple[AuditMarker, ...]:
    """Return every marker, oldest first."""
    rows = found(connection, "SELECT body FROM rollout_audit_markers ORDER BY number")
    return tuple(MARKERS.decode(body) for (body,) in rows)


def _time(microseconds_since_1970: int) -> datetime:
    return EPOCH + microseconds_since_1970 * MICROSECOND


def _row(row: Sequence[Any]) -> AuditRow:
    number, slot, kind, body, effective_at, exported = row
    effective = None if effective_at is None else _time(effective_at)
    return AuditRow(number, Slot(slot), audit_body(kind, body), effective, exported=bool(exported))
