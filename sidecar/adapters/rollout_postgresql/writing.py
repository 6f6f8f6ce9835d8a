"""Writes rollouts, inside one transaction."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sidecar.adapters.postgresql import Connection
from sidecar.adapters.postgresql.texts import unescape_nul
from sidecar.adapters.rollout_postgresql.rows import body, kept
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.verifying.audit_chain import AuditHead, audit_link
from sidecar.operations.rollout.audit.retention import LARGEST_REMOVAL, OldAudit, check_marker, old_audit_of
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import ANSWERS, FLAGS, MARKERS, kind_of, text_of, transition_key
from sidecar.operations.rollout.store.flag_writes import FlagWrite
from sidecar.operations.rollout.store.ports import KeptDefinition, RolloutWrite, StoredFlag
from sidecar.operations.rollout.store.store_rules import check_whole, existing_write, refuse_other_revision

LOCK: Final = "select last_number, last_link from rollout_version for update"
ADVANCE: Final = "update rollout_version set version = version + $1, last_number = $2, last_link = $3"
RAISE_VERSION: Final = "update rollout_version set version = version + 1"
WRITTEN: Final = "select exists (select from rollout_audit where write_id = $1)"
ANSWER: Final = "select body from rollout_answers where request_id = $1"
PUT: Final = """
insert into rollouts values ($1, $2, $3)
on conflict (slot) do update set revision = excluded.revision, body = excluded.body
"""
IS_TRANSITION: Final = "select exists (select from rollout_transitions where digest = $1 and target_state = $2)"
AUDIT: Final = "insert into rollout_audit values ($1, $2, $3, $4, $5, $6, $7, $8)"
FLAG: Final = "select body from rollout_flags where name = $1"
PUT_FLAG: Final = """
insert into rollout_flags values ($1, $2, $3)
on conflict (name) do update set revision = excluded.revision, body = excluded.body
"""
KEEP: Final = "insert into kept_definitions values ($1, $2) on conflict do nothing returning digest"
EFFECTIVE: Final = """
update rollout_transitions set effective_at = $3, noted_by = $4
where digest = $1 and target_state = $2 and effective_at is null
"""
NOTED: Final = """
select exists (select from rollout_transitions where digest = $1 and target_state = $2 and noted_by = $3)
"""
OLD: Final = """
select number, body, link from rollout_audit
where number < least(coalesce((select min(number) from rollout_audit where at >= $1), 9223372036854775807),
  coalesce((select min(number) from rollout_unexported), 9223372036854775807))
order by number limit $2
"""


async def write(connection: Connection, change: RolloutWrite, write_id: str) -> None:
    """Keep one change. Raises `RevisionConflict` and `RequestIdReused`."""
    check_whole(change)
    locked: Any = await connection.fetchrow(LOCK)
    head = AuditHead(locked["last_number"], locked["last_link"])
    if await connection.fetchval(WRITTEN, write_id):
        return
    answer = change.answer
    if answer is not None and existing_write(
        kept(ANSWERS, await connection.fetchval(ANSWER, answer.request_id)), answer
    ):
        return
    stored = await connection.fetchval("select revision from rollouts where slot = $1", change.slot)
    refuse_other_revision(f"the rollout of {change.slot}", change.expected_revision, stored or 0)
    if isinstance(change, FlagWrite):
        await set_flag(connection, change.flag)
    if change.rollout is not None:
        await connection.execute(PUT, change.slot, change.rollout.revision, body(change.rollout))
    audited: list[TransitionEvent | RolloutEvent] = [*change.transitions, *change.events]
    for each in audited:
        head = await _audited(connection, change, each, head, write_id)
    await connection.execute(ADVANCE, int(change.rollout is not None), head.number, head.link)
    if answer is not None:
        insert = "insert into rollout_answers values ($1, $2, $3)"
        await connection.execute(insert, answer.request_id, answer.at, body(answer))


async def set_flag(connection: Connection, flag: StoredFlag) -> None:
    """Set or create a flag; the one that is there has the revision before. Raises `RevisionConflict`."""
    await connection.fetchval(LOCK)
    stored = kept(FLAGS, await connection.fetchval(FLAG, flag.name))
    refuse_other_revision(f"the flag {flag.name}", flag.revision - 1, stored.revision if stored else 0)
    await connection.execute(PUT_FLAG, flag.name, flag.revision, body(flag))
    await connection.execute(RAISE_VERSION)


async def keep_definition(connection: Connection, definition: KeptDefinition) -> None:
    """Keep a definition, if it is not kept already."""
    await connection.fetchval(LOCK)
    if await connection.fetchval(KEEP, definition.digest, body(definition)) is not None:
        await connection.execute(RAISE_VERSION)


async def became_effective(
    connection: Connection, event_ids: Sequence[str], at: datetime, noted_by: str
) -> Sequence[str]:
    """Note that transitions took effect; return those that this call noted, also if it did so when it came before."""
    ours = []
    for event_id in sorted(set(event_ids)):  # in one order, so that two replicas never wait for each other
        key = transition_key(event_id)
        await connection.execute(EFFECTIVE, *key, at, noted_by)
        if await connection.fetchval(NOTED, *key, noted_by):
            ours.append(event_id)
    return [event_id for event_id in dict.fromkeys(event_ids) if event_id in ours]


async def old_audit(connection: Connection, before: datetime) -> OldAudit | None:
    """Return the rows that may be removed; see the port."""
    rows = await connection.fetch(OLD, before, LARGEST_REMOVAL)
    return old_audit_of([(row["number"], unescape_nul(row["body"]), row["link"]) for row in rows])


async def remove_audit(connection: Connection, marker: AuditMarker) -> int:
    """Store a marker and remove the rows that it covers. Raises `RecordConflict`."""
    await connection.fetchval(LOCK)
    found = await connection.fetchval("select body from rollout_audit_markers where number = $1", marker.number)
    if kept(MARKERS, found) == marker:
        return marker.rows  # it came before, and its answer was lost
    check_marker(marker, await old_audit(connection, marker.before))
    await connection.execute("select rollout_purge($1, $2, $3)", marker.number, marker.before, body(marker))
    return marker.rows


async def _audited(
    connection: Connection,
    change: RolloutWrite,
    each: TransitionEvent | RolloutEvent,
    head: AuditHead,
    write_id: str,
) -> AuditHead:
    """Write an audit row behind `head`, unless it is a transition that is kept already; return the head then."""
    number = head.number + 1
    if isinstance(each, TransitionEvent):
        key = transition_key(each.event_id)
        if await connection.fetchval(IS_TRANSITION, *key):
            return head
        await connection.execute("insert into rollout_transitions values ($1, $2, $3)", *key, number)
    link = audit_link(head.link, number, change.slot, kind_of(each), text_of(each))
    of_row = (number, change.slot, each.subagent_id, kind_of(each), each.at, write_id, body(each), link)
    await connection.execute(AUDIT, *of_row)
    await connection.execute("insert into rollout_unexported values ($1)", number)
    return AuditHead(number, link)
