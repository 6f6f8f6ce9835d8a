"""Writes rollouts, inside a transaction of the engine's writer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import apsw

from sidecar.adapters.rollout_sqlite.reading import answer_in, flag_in, found, microseconds, old_audit_in
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.verifying.audit_chain import audit_link
from sidecar.operations.rollout.audit.retention import check_marker
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import MARKERS, kind_of, text_of, transition_key
from sidecar.operations.rollout.store.flag_writes import FlagWrite
from sidecar.operations.rollout.store.ports import AuditRow, KeptDefinition, RolloutWrite, StoredFlag
from sidecar.operations.rollout.store.replicas import Replica
from sidecar.operations.rollout.store.store_rules import check_whole, existing_write, refuse_other_revision

RAISE_VERSION: Final = "UPDATE rollout_version SET version = version + 1"
NEXT_NUMBER: Final = "UPDATE rollout_version SET last_number = last_number + 1 RETURNING last_number, last_link"


def write(connection: apsw.Connection, change: RolloutWrite, write_id: str) -> None:
    """Keep one change. Raises `RevisionConflict` and `RequestIdReused`."""
    check_whole(change)
    answer = change.answer
    if found(connection, "SELECT 1 FROM rollout_audit WHERE write_id = ? LIMIT 1", write_id):
        return
    if answer is not None and existing_write(answer_in(connection, answer.request_id), answer):
        return
    stored = connection.execute("SELECT revision FROM rollouts WHERE slot = ?", (change.slot,)).get
    refuse_other_revision(f"the rollout of {change.slot}", change.expected_revision, stored or 0)
    if isinstance(change, FlagWrite):
        set_flag(connection, change.flag)
    if change.rollout is not None:
        connection.execute(
            "INSERT OR REPLACE INTO rollouts VALUES (?, ?, ?)",
            (change.slot, change.rollout.revision, text_of(change.rollout)),
        )
        connection.execute(RAISE_VERSION)
    for event in change.transitions:
        key = transition_key(event.event_id)
        kept = "SELECT 1 FROM rollout_transitions WHERE digest = ? AND target_state = ?"
        if not found(connection, kept, *key):
            number = _audited(connection, change, event, write_id)
            connection.execute("INSERT INTO rollout_transitions VALUES (?, ?, ?, NULL, NULL)", (*key, number))
    for happening in change.events:
        _audited(connection, change, happening, write_id)
    if answer is not None:
        values = (answer.request_id, microseconds(answer.at), text_of(answer))
        connection.execute("INSERT INTO rollout_answers VALUES (?, ?, ?)", values)


def set_flag(connection: apsw.Connection, flag: StoredFlag) -> None:
    """Set or create a flag; the one that is there has the revision before. Raises `RevisionConflict`."""
    stored = flag_in(connection, flag.name)
    refuse_other_revision(f"the flag {flag.name}", flag.revision - 1, stored.revision if stored else 0)
    values = (flag.name, flag.revision, text_of(flag))
    connection.execute("INSERT OR REPLACE INTO rollout_flags VALUES (?, ?, ?)", values)
    connection.execute(RAISE_VERSION)


def keep_definition(connection: apsw.Connection, definition: KeptDefinition) -> bool:
    """Store a definition; return whether it is new."""
    values = (definition.digest, text_of(definition))
    connection.execute("INSERT INTO kept_definitions VALUES (?, ?) ON CONFLICT DO NOTHING", values)
    if connection.changes() == 0:
        return False
    connection.execute(RAISE_VERSION)
    return True


def show(connection: apsw.Connection, said: Replica, forgotten: datetime) -> None:
    """Store the publication of this process, and remove those of others from before `forgotten`."""
    values = (said.instance, said.version, microseconds(said.seen_at), text_of(said.pinned))
    connection.execute("INSERT OR REPLACE INTO rollout_replicas VALUES (?, ?, ?, ?)", values)
    connection.execute("DELETE FROM rollout_replicas WHERE seen_at < ?", (microseconds(forgotten),))


def became_effective(connection: apsw.Connection, event_ids: Sequence[str], at: datetime, noted_by: str) -> list[str]:
    """Note that transitions took effect; return those that this call noted, also if it did so when it came before."""
    ours = []
    for event_id in event_ids:
        key = transition_key(event_id)
        connection.execute(
            "UPDATE rollout_transitions SET effective_at = ?, noted_by = ?"
            " WHERE digest = ? AND target_state = ? AND effective_at IS NULL",
            (microseconds(at), noted_by, *key),
        )
        noted = "SELECT 1 FROM rollout_transitions WHERE digest = ? AND target_state = ? AND noted_by = ?"
        if event_id not in ours and found(connection, noted, *key, noted_by):
            ours.append(event_id)
    return ours


def exported(connection: apsw.Connection, rows: Sequence[AuditRow]) -> None:
    """Note that rows have been handed on."""
    connection.executemany("DELETE FROM rollout_unexported WHERE number = ?", [(row.number,) for row in rows])


def remove_audit(connection: apsw.Connection, marker: AuditMarker) -> int:
    """Store a marker and remove the rows that it covers. Raises `RecordConflict`."""
    kept = connection.execute("SELECT body FROM rollout_audit_markers WHERE number = ?", (marker.number,)).get
    if kept is not None and MARKERS.decode(kept) == marker:
        return marker.rows  # it came before, and its answer was lost
    check_marker(marker, old_audit_in(connection, marker.before))
    connection.execute("INSERT INTO rollout_audit_markers VALUES (?, ?)", (marker.number, text_of(marker)))
    connection.execute("INSERT INTO purging VALUES ('retention of the audit of rollouts')")
    connection.execute("DELETE FROM rollout_audit WHERE number <= ?", (marker.number,))
    connection.execute("DELETE FROM rollout_answers WHERE at < ?", (microseconds(marker.before),))
    connection.execute("DELETE FROM purging")
    return marker.rows


def _audited(
    connection: apsw.Connection, change: RolloutWrite, body: TransitionEvent | RolloutEvent, write_id: str
) -> int:
    ((number, before),) = found(connection, NEXT_NUMBER)
    kind, text = kind_of(body), text_of(body)
    link = audit_link(before, number, change.slot, kind, text)
    values: tuple[Any, ...] = (number, change.slot, body.subagent_id, kind, microseconds(body.at), write_id, text, link)
    connection.execute("INSERT INTO rollout_audit VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    connection.execute("UPDATE rollout_version SET last_link = ?", (link,))
    connection.execute("INSERT INTO rollout_unexported VALUES (?)", (number,))
    return int(number)
