"""Translates the messages about reading rollouts: requests into plain values, the state of rollouts into answers."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.bucketing import VERSION, WHOLE
from sidecar.core.rollout.events import RolloutEvent, TransitionEvent
from sidecar.core.rollout.serving import BindSubject
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow
from sidecar.operations.rollout.store.replicas import Replica
from sidecar.operations.rollout.views.explain import Explained, Explanation
from sidecar.operations.rollout.views.preview import Preview
from sidecar.operations.rollout.views.rollout_reading import (
    BackendReading,
    DefinitionReading,
    RolloutsReading,
    SlotReading,
)
from sidecar.rpc.translate import decommissions, enums, rollout_enums, steps
from sidecar.rpc.translate.fields import Fields, fill_duration, fill_timestamp
from subagents.lifecycle.v1 import reading_pb2 as pb

LARGEST_SEQUENCE: Final = 2**53
"""The largest number of an audit row: JSON clients read numbers as floats, which are exact up to this value."""
LONGEST_PRINCIPAL: Final = 256  # characters
LONGEST_ARM: Final = 128  # characters
LARGEST_ANSWER: Final = 60 * 1024
"""The most bytes of one message of audit rows; less than the smallest value of `server.limits.message_bytes`."""


# --- requests


def get(message: pb.GetRolloutRequest) -> str:
    """Return the slot or definition. Raises `InvalidRequest`."""
    fields = Fields("GetRolloutRequest")
    slot = fields.definition_name("slot", message.slot)
    fields.check()
    return slot


def explain(message: pb.ExplainServingRequest) -> tuple[str, BindSubject, datetime | None]:
    """Return slot, user and time of a request. Raises `InvalidRequest`."""
    fields = Fields("ExplainServingRequest")
    slot = fields.definition_name("slot", message.slot)
    key = fields.one_line("principal", message.principal, LONGEST_PRINCIPAL)
    arm = fields.one_line("experiment_arm", message.experiment_arm, LONGEST_ARM)
    at = fields.moment("at", message.at) if message.HasField("at") else None
    fields.check()
    return slot, BindSubject(key, arm), at


def preview(message: pb.PreviewRampRequest) -> tuple[str, str, int]:
    """Return slot, digest and ramp. Raises `InvalidRequest`."""
    fields = Fields("PreviewRampRequest")
    slot = fields.definition_name("slot", message.slot)
    digest = fields.one_line("digest", message.digest, steps.LONGEST_DIGEST)
    to = fields.count("ramp_basis_points", message.ramp_basis_points, WHOLE)
    fields.check()
    return slot, digest, to


def watch_audit(message: pb.WatchAuditRequest) -> AuditQuery:
    """Return the query. Raises `InvalidRequest`."""
    fields = Fields("WatchAuditRequest")
    slot = Slot(fields.definition_name("slot", message.slot)) if message.slot else None
    name = message.definition_id
    definition_id = DefinitionId(fields.definition_name("definition_id", name)) if name else None
    after = fields.count("after_sequence", message.after_sequence, LARGEST_SEQUENCE)
    fields.check()
    return AuditQuery(slot=slot, definition_id=definition_id, after=after)


# --- answers


def rollouts_message(reading: RolloutsReading, slots: Sequence[SlotReading], token: str) -> pb.ListRolloutsResponse:
    """Return a page of slots, and the token of the next one."""
    return pb.ListRolloutsResponse(
        slots=[slot_message(slot) for slot in slots],
        next_page_token=token,
        backends=[_backend(each) for each in reading.backends],
        # Lets a client see which of two answers is newer, and whether this replica has read a write.
        rollout_version=reading.version,
        replica_view=reading.replica_view,
    )


def slot_message(reading: SlotReading) -> pb.SlotStatus:
    """Return one slot."""
    rollout = reading.rollout
    return pb.SlotStatus(
        slot=rollout.slot,
        revision=rollout.revision,
        active_digest=rollout.active or "",
        mode=rollout_enums.ROLLOUT_MODE[rollout.mode],
        curve_basis_points=rollout.curve,
        definitions=[_definition(each) for each in reading.definitions],
    )


def explanation_message(found: Explanation) -> pb.ExplainServingResponse:
    """Return the explanation."""
    message = pb.ExplainServingResponse(
        slot=found.slot,
        served_digest=found.served or "",
        key=found.key,
        salt=found.salt,
        bucketing=VERSION,
        bucket=found.bucket,
        verdicts=[_verdict(each) for each in found.verdicts],
        assumptions=found.assumptions,
    )
    fill_timestamp(message.at, found.at)
    return message


def preview_message(preview: Preview) -> pb.PreviewRampResponse:
    """Return the effect of a ramp."""
    return pb.PreviewRampResponse(
        from_basis_points=preview.before,
        to_basis_points=preview.after,
        known=preview.known,
        inside=preview.inside,
        joining=preview.joining,
        leaving=preview.leaving,
        gates=preview.gates,
        definition_id=preview.definition_id,
        digest=preview.digest,
    )


def replica_message(replica: Replica) -> pb.Replica:
    """Return one sidecar."""
    message = pb.Replica(instance_id=replica.instance, rollout_version=replica.version, alive=replica.alive)
    fill_timestamp(message.seen_at, replica.seen_at)
    return message


def audit_messages(rows: Sequence[AuditRow]) -> Iterator[pb.WatchAuditResponse]:
    """Yield a page of audit rows in as many messages as the size limit demands.

    A row can be large, because a transition names every active flag.
    """
    answer, size = pb.WatchAuditResponse(), 0
    for message in map(audit_message, rows):
        size += message.ByteSize()
        # A single row that is larger is sent alone: rows cannot be split.
        if answer.rows and size > LARGEST_ANSWER:
            yield answer
            answer, size = pb.WatchAuditResponse(), message.ByteSize()
        answer.rows.append(message)
    if answer.rows:
        yield answer


def audit_message(row: AuditRow) -> pb.AuditRow:
    """Return one audit row."""
    body = row.body
    message = pb.AuditRow(
        sequence=row.number,
        slot=row.slot,
        digest=body.digest,
        actor=body.actor,
        actor_key=body.actor_key,
        actor_role=rollout_enums.ACTOR_ROLE[body.actor_role],
        reason=body.reason,
        request_id=body.request_id,
    )
    fill_timestamp(message.requested_at, body.at)
    if isinstance(body, TransitionEvent):
        _fill_transition(message.transition, body, row.effective_at)
    # A step of a decommission is a `RolloutEvent` with `decommission`. Clients get it as a row of its own kind.
    elif body.decommission is not None:
        decommissions.fill_row(message.decommission, body, body.decommission)
    else:
        _fill_rollout(message.rollout, body)
    return message


def _fill_transition(message: pb.TransitionRow, event: TransitionEvent, effective_at: datetime | None) -> None:
    message.definition_id = event.subagent_id
    message.source_state = rollout_enums.LIFECYCLE_STATE[event.source_state]
    message.target_state = rollout_enums.LIFECYCLE_STATE[event.target_state]
    message.trigger = rollout_enums.TRIGGER[event.trigger]
    message.agent_definition_commit = event.agent_definition_commit
    message.cohort.agent_definition_version = event.cohort.agent_definition_version
    message.cohort.active_flags.extend(event.cohort.active_flags)
    message.cohort.ramp_step_percent = event.cohort.ramp_step_percent
    # Absent until a bind has used the new state.
    if effective_at is not None:
        fill_timestamp(message.effective_at, effective_at)


def _fill_rollout(message: pb.RolloutRow, event: RolloutEvent) -> None:
    message.definition_id = event.subagent_id
    message.kind = rollout_enums.ROLLOUT_EVENT_KIND[event.what]
    message.before_basis_points = event.before
    message.after_basis_points = event.after
    message.detail = event.detail


def _backend(reading: BackendReading) -> pb.BackendStatus:
    message = pb.BackendStatus(name=reading.name, fresh=reading.fresh)
    # Absent if the backend was never read; 0 would mean that it was read just now.
    if reading.age is not None:
        fill_duration(message.age, reading.age)
    return message


def _definition(reading: DefinitionReading) -> pb.DefinitionStatus:
    facts = reading.facts
    message = pb.DefinitionStatus(
        digest=facts.digest,
        definition_id=facts.definition_id,
        commit=facts.commit,
        vertical=facts.vertical,
        state=rollout_enums.LIFECYCLE_STATE[facts.state],
        active=reading.active,
        ramp_basis_points=facts.ramp,
        flag_pair=rollout_enums.flag_pair(facts),
        flags=[pb.FlagStatus(name=name, value=rollout_enums.FLAG_VALUE[value]) for name, value in reading.flags],
        flag_backend=reading.backend,
        target_digest=facts.target or "",
        target_recorded=facts.target_recorded,
        last_gate_answers=[steps.gate_message(each) for each in reading.said.results] if reading.said else (),
        pinned_turns=reading.pinned,
        in_configuration=reading.configured,
        deprecated=reading.deprecated,
        drifts=reading.drifts,
        decommission=decommissions.record_message(facts.decommission) if facts.decommission else None,
        decommission_overdue=reading.overdue,
    )
    _fill_incidents(message, reading)
    return message


def _fill_incidents(message: pb.DefinitionStatus, reading: DefinitionReading) -> None:
    """Fill in what a definition has only after certain events, e.g. a kill or a breach; otherwise it stays absent."""
    facts = reading.facts
    if facts.activated_at is not None:
        fill_timestamp(message.activated_at, facts.activated_at)
    if reading.said is not None:
        fill_timestamp(message.gates_answered_at, reading.said.at)
    if facts.decommission_began_at is not None:
        fill_timestamp(message.decommission_started_at, facts.decommission_began_at)
    if facts.killed is not None:
        message.killed.killed_by, message.killed.reason = facts.killed.killed_by, facts.killed.reason
        fill_timestamp(message.killed.killed_at, facts.killed.killed_at)
    if facts.breach is not None:
        breach = facts.breach
        message.breach.breach_id, message.breach.reason = breach.breach_id, breach.reason
        message.breach.acknowledged_by = breach.acknowledged_by
        fill_timestamp(message.breach.breached_at, breach.at)
    for each in facts.overrides:
        granted = message.overrides.add(
            gate=each.gate,
            from_basis_points=each.from_ramp,
            to_basis_points=each.to_ramp,
            overridden_by=each.by,
            reason=each.reason,
        )
        fill_timestamp(granted.expires_at, each.expires_at)


def _verdict(found: Explained) -> pb.DefinitionVerdict:
    """Return why a definition serves the user or not."""
    return pb.DefinitionVerdict(
        digest=found.digest,
        definition_id=found.definition_id,
        verdict=enums.CANDIDATE[found.verdict],
        state=rollout_enums.LIFECYCLE_STATE[found.state],
        ramp_basis_points=found.ramp,
        flags=[pb.FlagStatus(name=name, value=rollout_enums.FLAG_VALUE[value]) for name, value in found.flags],
        killed=found.killed,
        explanation=found.words,
    )
