"""The transactions that write rollouts, their audit events and the embedded flags; SQLite and PostgreSQL share them.

Each public function is one transaction, as a generator (`Steps`): it yields statements and receives their rows. A
commit whose answer was lost is repeated, so each function must have no further effect when it is repeated.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from sidecar.adapters.rollout_tables import reading
from sidecar.adapters.statements import Steps, value
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.verifying.audit_chain import AuditHead, audit_link
from sidecar.operations.rollout.audit.retention import check_marker
from sidecar.operations.rollout.store.audit_marker import AuditMarker
from sidecar.operations.rollout.store.encoding import kind_of, text_of, transition_key
from sidecar.operations.rollout.store.flag_writes import FlagWrite
from sidecar.operations.rollout.store.ports import AuditRow, KeptDefinition, RolloutWrite, StoredFlag
from sidecar.operations.rollout.store.store_rules import check_whole, existing_write, refuse_other_revision

LOCK: Final = "update rollout_version set version = version returning last_number, last_link"
"""The first statement of writes that must not overlap. PostgreSQL locks the row until the transaction ends. SQLite
serialises all writes anyway. Later statements of the transaction see everything that earlier writers have committed.
The statement returns the head of the audit's hash chain."""
ADVANCE: Final = "update rollout_version set version = version + $1, last_number = $2, last_link = $3"
RAISE_VERSION: Final = "update rollout_version set version = version + 1"
WRITTEN: Final = "select 1 from rollout_audit where write_id = $1 limit 1"
"""Whether an earlier attempt of a write was committed."""
PUT: Final = """
insert into rollouts values ($1, $2, $3)
on conflict (slot) do update set revision = excluded.revision, body = excluded.body
"""
PUT_FLAG: Final = """
insert into rollout_flags values ($1, $2, $3)
on conflict (name) do update set revision = excluded.revision, body = excluded.body
"""
KEEP: Final = "insert into kept_definitions values ($1, $2) on conflict do nothing returning digest"
IS_TRANSITION: Final = "select 1 from rollout_transitions where digest = $1 and target_state = $2"
TRANSITION: Final = "insert into rollout_transitions (digest, target_state, number) values ($1, $2, $3)"
AUDIT: Final = "insert into rollout_audit values ($1, $2, $3, $4, $5, $6, $7, $8)"
EFFECTIVE: Final = """
update rollout_transitions set effective_at = $1, noted_by = $2
where digest = $3 and target_state = $4 and effective_at is null
"""
NOTED: Final = "select 1 from rollout_transitions where digest = $1 and target_state = $2 and noted_by = $3"
"""Whether this replica recorded that a transition took effect."""


def write(change: RolloutWrite, write_id: str) -> Steps[None]:
    """Store one change: the rollout or flag, the audit events, and the answer to the request.

    Args:
        change: the change.
        write_id: an id of this write, the same for its repetitions.

    Raises:
        RevisionConflict: another write has changed the rollout or flag.
        RequestIdReused: the request id was used for another request.
    """
    check_whole(change)
    ((number, link),) = yield (LOCK,)
    # A commit whose answer was lost is repeated with the same id. It is found here, and not written a second time.
    if (yield (WRITTEN, write_id)):
        return
    answer = change.answer
    # Before the comparison of revisions: the first write of this request has increased the revision.
    if answer is not None and existing_write((yield from reading.answer(answer.request_id)), answer):
        return
    # LOCK was taken before, so no other writer can change the revision between this comparison and the commit.
    stored = yield from value("select revision from rollouts where slot = $1", change.slot)
    refuse_other_revision(f"the rollout of {change.slot}", change.expected_revision, stored or 0)
    if isinstance(change, FlagWrite):
        yield from _put_flag(change.flag)
    if change.rollout is not None:
        yield (PUT, change.slot, change.rollout.revision, text_of(change.rollout))
    head = yield from _append_audit(change, [*change.transitions, *change.events], AuditHead(number, link), write_id)
    # In the same transaction as the rows, so that the stored head always belongs to the newest row.
    yield (ADVANCE, int(change.rollout is not None), head.number, head.link)
    if answer is not None:
        yield ("insert into rollout_answers values ($1, $2, $3)", answer.request_id, answer.at, text_of(answer))


def set_flag(flag: StoredFlag) -> Steps[None]:
    """Set or create a flag. Raises `RevisionConflict` if the stored flag does not have the previous revision."""
    yield (LOCK,)
    yield from _put_flag(flag)


def keep_definition(definition: KeptDefinition) -> Steps[None]:
    """Store a definition, unless it is stored already."""
    yield (LOCK,)
    # Usually another replica has stored it. The version then stays, so that no replica reads all rollouts again.
    if (yield (KEEP, definition.digest, text_of(definition))):
        yield (RAISE_VERSION,)


def became_effective(event_ids: Sequence[str], at: datetime, noted_by: str) -> Steps[Sequence[str]]:
    """Record that transitions took effect, unless another replica has recorded it.

    Args:
        event_ids: the ids of the transitions' audit events.
        at: when they took effect.
        noted_by: the replica.

    Returns:
        the ids that this replica has recorded, now or in an earlier call.
    """
    ours = set()
    # All replicas lock the rows in the same order. Otherwise two of them could wait for each other.
    for event_id in sorted(set(event_ids)):
        key = transition_key(event_id)
        yield (EFFECTIVE, at, noted_by, *key)
        # Asked separately: a repetition changes no row, but must still name the transitions of the first attempt.
        if (yield (NOTED, *key, noted_by)):
            ours.add(event_id)
    return [event_id for event_id in dict.fromkeys(event_ids) if event_id in ours]


def exported(rows: Sequence[AuditRow]) -> Steps[None]:
    """Record that every audit sink has received these rows."""
    # Sorted, so that two replicas lock the rows in the same order.
    for number in sorted(row.number for row in rows):
        yield ("delete from rollout_unexported where number = $1", number)


def remove_audit(marker: AuditMarker, purge: Steps[None]) -> Steps[int]:
    """Remove the audit rows that a marker covers, and return their number. Raises `RecordConflict`.

    Args:
        marker: the signed statement about the rows.
        purge: stores the marker and removes the rows, in the way that the database's triggers allow.
    """
    yield (LOCK,)
    # If the marker is stored already, this is a repetition: the rows are gone. Otherwise the rows are read again,
    # because they may have changed since the marker was signed.
    if (yield from reading.audit_marker(marker.number)) != marker:
        check_marker(marker, (yield from reading.old_audit(marker.before)))
        yield from purge
    return marker.rows


def _put_flag(flag: StoredFlag) -> Steps[None]:
    stored = yield from reading.flag(flag.name)
    refuse_other_revision(f"the flag {flag.name}", flag.revision - 1, stored.revision if stored else 0)
    yield (PUT_FLAG, flag.name, flag.revision, text_of(flag))
    yield (RAISE_VERSION,)


def _append_audit(
    change: RolloutWrite, bodies: Iterable[TransitionEvent | RolloutEvent], head: AuditHead, write_id: str
) -> Steps[AuditHead]:
    """Write an audit row for each event after the row `head`. Return the head that is then the newest.

    A transition that is stored already is skipped: each definition enters a state only once.
    """
    for body in bodies:
        number = head.number + 1  # a skipped transition takes none, so the numbers have no gap
        if isinstance(body, TransitionEvent):
            key = transition_key(body.event_id)
            if (yield (IS_TRANSITION, *key)):
                continue
            yield (TRANSITION, *key, number)
        kind, text = kind_of(body), text_of(body)
        head = AuditHead(number, audit_link(head.link, number, change.slot, kind, text))
        yield (AUDIT, number, change.slot, body.subagent_id, kind, body.at, write_id, text, head.link)
        yield ("insert into rollout_unexported values ($1)", number)
    return head
