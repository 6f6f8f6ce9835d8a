"""Translates rollout step requests to plain values, and the results of steps to messages."""

from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import DefinitionId, Digest, Slot
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.events import GateResult
from sidecar.core.rollout.rollback import Successor
from sidecar.core.rollout.rollout_config import MOST_STEPS
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout import requests
from sidecar.policy.lifecycle import Step
from sidecar.rpc.translate import enums, rollout_enums
from sidecar.rpc.translate.decommissions import record_message
from sidecar.rpc.translate.fields import Fields
from sidecar.rpc.translate.flags import switch_message
from subagents.lifecycle.v1 import lifecycle_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2

AskedT = TypeVar("AskedT", bound=requests.StepRequest)

LONGEST_REASON: Final = 1000  # characters
LONGEST_DIGEST: Final = 128  # characters
MOST_REVISION: Final = 2**53
"""The largest revision: JSON clients read numbers as floats, which are exact up to this value."""
FURTHEST: Final = timedelta(days=31)
"""The longest lifetime of an override (a permission to pass a failed gate). A forgotten one must end by itself."""
STOP_REACH: Final = enums.numbers_by_word(pb.StopReach, "STOP_REACH")
STEPS: Final = {LifecycleState.TEST: Step.TO_TEST, LifecycleState.PROMOTE: Step.PROMOTE}
SAFE: Final = (requests.RampDown, requests.RollBack, requests.Kill, requests.SwitchFlagOff)
"""Steps that only reduce what users are served. They may omit the revision: an emergency must not wait for a read."""


def transition(message: pb.TransitionRequest) -> requests.Transition:
    """Return the step. Raises `InvalidRequest`, `TransitionRefused`."""
    fields = Fields("TransitionRequest")
    target = fields.member(
        "target_state", message.target_state, rollout_enums.LIFECYCLE_STATES, rollout_enums.LIFECYCLE_NAMES
    )
    if target is LifecycleState.ROLLBACK:
        fields.refuse("target_state", "is LIFECYCLE_STATE_ROLLBACK; use RollBack or Kill")
    # The default is never used: a target without a step is refused below. The header is translated first, so that its
    # problems are reported.
    step = header(fields, message.header, requests.Transition, step=STEPS.get(target, Step.TO_TEST))
    fields.check()
    # A valid request, but no step leads there, so it gets the reason of a refused step.
    if target not in STEPS:
        raise TransitionRefused("nothing moves to dev: a fix is a new definition, and that begins there")
    return step


def set_ramp(message: pb.SetRampRequest) -> requests.SetRamp:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("SetRampRequest")
    to = fields.count("ramp_basis_points", message.ramp_basis_points, WHOLE)
    step = header(fields, message.header, requests.SetRamp, to=to)
    fields.check()
    return step


def configure(message: pb.ConfigureRolloutRequest) -> requests.Configure:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("ConfigureRolloutRequest")
    mode = fields.member("mode", message.mode, rollout_enums.ROLLOUT_MODES, rollout_enums.ROLLOUT_MODE_NAMES)
    if len(message.curve_basis_points) > MOST_STEPS:
        fields.refuse("curve_basis_points", f"has more than {MOST_STEPS} steps")
    # Whether the curve rises is a rule of rollouts, which the step checks.
    curve = tuple(message.curve_basis_points[:MOST_STEPS])
    step = header(fields, message.header, requests.Configure, mode=mode, curve=curve)
    fields.check()
    return step


def ramp_down(message: pb.RampDownRequest) -> requests.RampDown:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("RampDownRequest")
    breach_id = fields.run_side_id("breach_id", message.breach_id)
    step = header(fields, message.header, requests.RampDown, breach_id=breach_id)
    fields.check()
    return step


def acknowledge_breach(message: pb.AcknowledgeBreachRequest) -> requests.AcknowledgeBreach:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("AcknowledgeBreachRequest")
    breach_id = fields.run_side_id("breach_id", message.breach_id)
    step = header(fields, message.header, requests.AcknowledgeBreach, breach_id=breach_id)
    fields.check()
    return step


def override_gate(message: pb.OverrideGateRequest, now: datetime) -> requests.OverrideGate:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("OverrideGateRequest")
    # `now` is refused below, so an invalid time gets a problem in every case.
    expires_at = fields.moment("expires_at", message.expires_at) or now
    if not now < expires_at <= now + FURTHEST:
        fields.refuse("expires_at", f"must be in the future, and at most {FURTHEST.days} days away")
    gate = fields.required("gate", message.gate, 60, "the name of the gate")
    to = fields.count("ramp_basis_points", message.ramp_basis_points, WHOLE)
    step = header(fields, message.header, requests.OverrideGate, gate=gate, to=to, expires_at=expires_at)
    fields.check()
    return step


def roll_back(message: pb.RollBackRequest) -> requests.RollBack:
    """Return the step. Raises `InvalidRequest`."""
    fields, successor = Fields("RollBackRequest"), None
    which = message.WhichOneof("afterwards")
    if which == "target_digest":
        successor = Successor(Digest(fields.one_line("target_digest", message.target_digest, LONGEST_DIGEST)))
        # The oneof is set, so the client meant a target: an empty one must not silently mean the recorded target.
        if not message.target_digest:
            fields.refuse("target_digest", "is empty; leave it out, and the recorded target serves afterwards")
    elif which == "leave_empty":
        successor = Successor()
        if not message.leave_empty:
            fields.refuse("leave_empty", "is false; leave it out, and the recorded target serves afterwards")
    step = header(fields, message.header, requests.RollBack, to=successor)
    fields.check()
    return step


def request_to_plain(message_name: str, kind: type[AskedT], message: Any) -> AskedT:
    """Return a step that has only a header. Raises `InvalidRequest`."""
    fields = Fields(message_name)
    step = header(fields, message.header, kind)
    fields.check()
    return step


def header(fields: Fields, message: pb.StepHeader, kind: type[AskedT], **more: Any) -> AskedT:
    """Return a step with the common fields of all steps; collects problems.

    Args:
        fields: of the request.
        message: its header.
        kind: the type of the step.
        more: the fields that only this type has.
    """
    # Presence counts, not the value: 0 is the revision of a slot that has no rollout yet.
    revision = message.expected_revision if message.HasField("expected_revision") else None
    if revision is None and kind not in SAFE:
        fields.refuse(
            "header.expected_revision", "is missing; send the revision that GetRollout or ListRollouts showed"
        )
    if revision is not None:
        fields.count("header.expected_revision", revision, MOST_REVISION)
    if not message.reason.strip():
        fields.refuse("header.reason", "is empty; say why, for the audit")
    return kind(
        definition_id=DefinitionId(fields.definition_name("header.definition_id", message.definition_id)),
        request_id=fields.run_side_id("header.request_id", message.request_id),
        reason=fields.one_line("header.reason", message.reason, LONGEST_REASON),
        slot=Slot(fields.definition_name("header.slot", message.slot) if message.slot else ""),
        digest=fields.one_line("header.digest", message.digest, LONGEST_DIGEST),
        expected_revision=revision,
        dry_run=message.dry_run,
        **more,
    )


def gate_message(result: GateResult) -> reading_pb2.GateAnswer:
    """Return the answer of one gate."""
    return reading_pb2.GateAnswer(
        gate=result.gate,
        verdict=rollout_enums.GATE_VERDICT[result.verdict],
        summary=result.summary,
        overridden=result.overridden,
    )


def result_message(answer: requests.StepAnswer) -> pb.StepResult:
    """Return the result of a step as a message."""
    return pb.StepResult(
        slot=answer.slot,
        definition_id=answer.definition_id,
        digest=answer.digest,
        # A stored answer has words instead of enums.
        state=rollout_enums.LIFECYCLE_STATE[LifecycleState(answer.state)],
        ramp_basis_points=answer.ramp,
        active=answer.active,
        revision=answer.revision,
        changed=answer.changed,
        repeated=answer.repeated,
        gate_answers=[gate_message(each) for each in answer.gates],
        edits=answer.edits,
        rollout_version=answer.version,
        reached=[STOP_REACH[each] for each in answer.reached],
        warnings=answer.warnings,
        decommission=record_message(answer.decommission) if answer.decommission else None,
        flag=switch_message(answer.flag) if answer.flag else None,
    )
