"""Translates the results of calls during ramps to messages. Imported when an operator first asks."""

from collections.abc import Sequence

from sidecar.core.errors import UnknownDefinition
from sidecar.core.evaluation.arm_evidence import LATENCY_BOUNDS, TOKEN_BOUNDS, ArmBlock
from sidecar.operations.evaluation.ramp_evidence import RampReading
from sidecar.rpc.translate.fields import Fields, fill_timestamp
from subagents.lifecycle.v1 import evidence_pb2 as pb


def asked_slot(message: pb.GetRampEvidenceRequest) -> str:
    """Return the slot that is asked for; empty: all. Raises `InvalidRequest`."""
    fields = Fields("GetRampEvidenceRequest")
    slot = fields.definition_name("slot", message.slot) if message.slot else ""
    fields.check()
    return slot


def evidence_message(readings: Sequence[RampReading], slot: str) -> pb.GetRampEvidenceResponse:
    """Return the ramps of a slot, or all. Raises `UnknownDefinition` if the slot has none."""
    shown = [each for each in readings if slot in {"", each.evidence.step.slot}]
    # A slot without a ramp is an error: an empty answer would look like a ramp without calls.
    if slot and not shown:
        raise UnknownDefinition(f"the slot {slot} has no ramp between 0 % and 100 %")
    ramps = [_ramp(each) for each in sorted(shown, key=lambda each: each.evidence.step.slot)]
    return pb.GetRampEvidenceResponse(ramps=ramps, latency_bounds=LATENCY_BOUNDS, token_bounds=TOKEN_BOUNDS)


def _ramp(reading: RampReading) -> pb.RampEvidence:
    step = reading.evidence.step
    message = pb.RampEvidence(
        slot=step.slot,
        active_definition_id=step.active_id,
        active_digest=step.active,
        target_definition_id=step.target_id,
        target_digest=step.target,
        ramp_basis_points=step.ramp,
        curve_basis_points=step.curve,
        facts_behind=reading.behind,
        unreadable_turns=reading.unreadable,
        is_full=reading.evidence.full,
        blocks=[
            pb.EvidenceBlock(active=_arm(block["active"]), target=_arm(block["target"]))
            for block in reading.evidence.in_order()
        ],
    )
    fill_timestamp(message.since, step.since)
    return message


def _arm(block: ArmBlock) -> pb.ArmCounts:
    return pb.ArmCounts(
        user_count=block.users,
        call_count=block.calls,
        failures=[pb.FailureCount(reason=reason, count=count) for reason, count in sorted(block.failures.items())],
        latency=block.latency,
        tokens=block.tokens,
        scores=[pb.ScoreTotal(name=name, count=each.count, total=each.total) for name, each in block.scores.items()],
    )
