"""Translates decommissions (the removal of a definition in five steps, `CleanupStep`) to messages."""

from sidecar.core.rollout.decommission_facts import CompletedStep, Decision, Decommission
from sidecar.core.rollout.events import DecommissionMark, RolloutEvent
from sidecar.operations.rollout.decommission.decommission_list import DecommissionReading
from sidecar.rpc.translate import rollout_enums
from sidecar.rpc.translate.fields import fill_timestamp
from subagents.lifecycle.v1 import reading_pb2


def reading_message(reading: DecommissionReading) -> reading_pb2.DecommissionStatus:
    """Return the present state of one decommission."""
    definition = reading.facts
    return reading_pb2.DecommissionStatus(
        slot=reading.slot,
        revision=reading.revision,
        definition_id=definition.definition_id,
        digest=definition.digest,
        vertical=definition.vertical,
        decommission=record_message(reading.record),
        overdue=reading.overdue,
        remaining=reading.left,
        prompt_blocks=reading.blocks,
        tools=reading.tools,
        pinned_turns=reading.pinned,
    )


def record_message(decommission: Decommission) -> reading_pb2.Decommission:
    """Return what is stored about a decommission."""
    following = decommission.next_step
    message = reading_pb2.Decommission(
        started_by=decommission.by,
        reason=decommission.reason,
        steps=[_step(each) for each in decommission.steps],
        # Unspecified: no step is left.
        next_step=reading_pb2.CLEANUP_STEP_UNSPECIFIED if following is None else rollout_enums.CLEANUP_STEP[following],
        evals=_decision(decommission.evals),
        # The decision about the tools, unlike `DecommissionStatus.tools`, which lists them.
        tools=_decision(decommission.tools),
    )
    fill_timestamp(message.started_at, decommission.began_at)
    fill_timestamp(message.due_at, decommission.due_at)
    if decommission.finished_at is not None:
        fill_timestamp(message.finished_at, decommission.finished_at)
    return message


def fill_row(message: reading_pb2.DecommissionRow, event: RolloutEvent, mark: DecommissionMark) -> None:
    """Fill in the part of an audit row that describes a step of a decommission.

    Args:
        message: to fill in.
        event: the event.
        mark: `event.decommission`, the fields that only events of decommissions have.
    """
    message.definition_id = event.subagent_id  # the id of a definition, despite its name
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
        # The state of the Python modules; unspecified for every step but step 3.
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
