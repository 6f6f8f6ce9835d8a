"""Translates requests about decommissions to plain values."""

from typing import Final

from sidecar.core.rollout.decommission_facts import CleanupStep, CodeStatus
from sidecar.operations.rollout import requests
from sidecar.rpc.translate import enums, rollout_enums, steps
from sidecar.rpc.translate.fields import Fields
from subagents.lifecycle.v1 import lifecycle_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2

LONGEST_CONFIRMATION: Final = 1000  # characters


def take_step(message: pb.TakeDecommissionStepRequest) -> requests.TakeDecommissionStep:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("TakeDecommissionStepRequest")
    step = fields.member("step", message.step, rollout_enums.CLEANUP_STEPS, enums.names_of(reading_pb2.CleanupStep))
    code: CodeStatus | None = fields.member(
        "code", message.code, rollout_enums.CODE_STATUSES, enums.names_of(reading_pb2.CodeStatus)
    )
    # Whether the code was deleted cannot be derived from the configuration, so the operator states it.
    if step is CleanupStep.MODULES and code is None:
        fields.refuse("code", "is missing; step 3 must state whether the modules are deleted or deprecated")
    if step is not CleanupStep.MODULES and code is not None:
        fields.refuse("code", "goes with step 3 only")
    confirmed = fields.one_line("confirmed", message.confirmed, LONGEST_CONFIRMATION)
    asked = steps.header(
        fields, message.header, requests.TakeDecommissionStep, step=step, code=code, confirmed=confirmed.strip()
    )
    fields.check()
    return asked


def decide(message: pb.DecideDecommissionRequest) -> requests.DecideDecommission:
    """Return the decision. Raises `InvalidRequest`."""
    fields = Fields("DecideDecommissionRequest")
    matter = fields.member(
        "subject", message.subject, rollout_enums.CLEANUP_SUBJECTS, enums.names_of(reading_pb2.CleanupSubject)
    )
    choice = fields.member(
        "choice", message.choice, rollout_enums.CLEANUP_CHOICES, enums.names_of(reading_pb2.CleanupChoice)
    )
    asked = steps.header(fields, message.header, requests.DecideDecommission, matter=matter, choice=choice)
    fields.check()
    return asked
