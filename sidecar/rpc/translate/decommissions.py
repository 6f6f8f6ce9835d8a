"""Translates decommissions (the removal of a definition in five steps) to messages."""

from sidecar.core.rollout.decommission_facts import CompletedStep, Decision, Decommission
from sidecar.core.rollout.events import DecommissionMark, RolloutEvent
from sidecar.operations.rollout.decommission.decommission_list import DecommissionReading
from sidecar.rpc.translate import rollout_enums
from sidecar.rpc.translate.fields import fill_timestamp
from subagents.lifecycle.v1 import reading_pb2


def reading_message(reading: DecommissionReading) -> reading_pb2.DecommissionStatus:
    """Return the present state of one decommission."""
    facts = reading.facts
    return reading_pb2.DecommissionStatus(
        slot=reading.slot,
        revision=reading.revision,
        definition_id=facts.definition_id,
        digest=facts.digest,
        vertical=facts.vertical,
        decommission=record_message(reading.record),
        overdue=reading.overdue,
        remaining=reading.left,
        prompt_blocks=reading.blocks,
        tools=reading.tools,
        pinned_turns=reading.pinned,
    )


def record_message(record: Decommission) -> reading_pb2.Decommission:
    """Return the recorded facts of a decommission."""
    following = record.next_step
    message = reading_pb2.Decommission(
        started_by=record.by,
        reason=record.reason,
        steps=[_step(each) for each in record.steps],
        # Unspecified: no step is left.
        next_step=reading_pb2.CLEANUP_STEP_UNSPECIFIED if following is None else rollout_enums.CLEANUP_STEP[following],
        evals=_decision(record.evals),
        tools=_decision(record.tools),
    )
    fill_timestamp(message.started_at, record.began_at)
    fill_timestamp(message.due_at, record.due_at)
    if record.finished_at is not None:
        fill_timestamp(message.finished_at, record.finished_at)
    return message


def fill_row(message: reading_pb2.DecommissionRow, event: RolloutEvent, mark: DecommissionMark) -> None:
    """Fill in the part of an audit row that describes a step of a decommission."""
    message.definition_id = event.subagent_id
    message.kind = rollout_enums.DECOMMISSION_EVENT_KIND[mark.step]
    message.source_state = rollout_enums.LIFECYCLE_STATE[mark.source_state]
    message.target_state = rollout_enums.LIFECYCLE_STATE[mark.target_state]
    message.trigger = rollout_enums.TRIGGER[mark.trigger]
    message.agent_definition_commit = mark.agent_definition_commit
    message.cohort.agent_definition_version = mark.cohort.agent_definition_version
    message.cohort.active_flags.extend(mark.cohort.active_flags)
    message.cohort.ramp_step_percent = mark.cohort.ramp_step_percent
    message.detail = event.detail


def _step(taken: CompletedStep) -> reading_pb2.CleanupStepTaken:
    message = reading_pb2.CleanupStepTaken(
        step=rollout_enums.CLEANUP_STEP[taken.step],
        taken_by=taken.by,
        reason=taken.reason,
        confirmed=taken.confirmed,
        agent_definition_version=taken.definition_version,
        code=reading_pb2.CODE_STATUS_UNSPECIFIED if taken.code is None else rollout_enums.CODE_STATUS[taken.code],
    )
    fill_timestamp(message.taken_at, taken.at)
    return message


def _decision(decided: Decision | None) -> reading_pb2.CleanupDecision | None:
    if decided is None:
        return None
    message = reading_pb2.CleanupDecision(
        choice=rollout_enums.CLEANUP_CHOICE[decided.choice], decided_by=decided.by, reason=decided.reason
    )
    fill_timestamp(message.decided_at, decided.at)
    return message
