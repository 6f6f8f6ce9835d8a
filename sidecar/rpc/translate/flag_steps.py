"""Translates requests about flags to plain values."""

from typing import Any

from sidecar.core.rollout.manual_flags import FlagKind
from sidecar.operations.rollout import requests
from sidecar.rpc.translate import enums, rollout_enums, steps
from sidecar.rpc.translate.fields import Fields
from subagents.lifecycle.v1 import flags_pb2
from subagents.lifecycle.v1 import lifecycle_pb2 as pb


def switch_on(message: pb.SwitchFlagOnRequest) -> requests.SwitchFlagOn:
    """Return the step. Raises `InvalidRequest`."""
    fields = Fields("SwitchFlagOnRequest")
    kind = fields.member("flag", message.flag, rollout_enums.FLAG_KINDS, enums.names_of(flags_pb2.FlagKind))
    version = _version(fields, message)
    asked = steps.header(fields, message.header, requests.SwitchFlagOn, flag=kind, expected_version=version)
    fields.check()
    return asked


def switch_cohort_off(message: pb.SwitchCohortFlagOffRequest) -> requests.SwitchFlagOff:
    """Return the step. Raises `InvalidRequest`."""
    return _off("SwitchCohortFlagOffRequest", FlagKind.COHORT, message)


def switch_kill_off(message: pb.SwitchKillFlagOffRequest) -> requests.SwitchFlagOff:
    """Return the step. Raises `InvalidRequest`."""
    return _off("SwitchKillFlagOffRequest", FlagKind.KILL, message)


def of_slot(message: flags_pb2.GetFlagsRequest) -> str:
    """Return the requested slot or definition. Raises `InvalidRequest`."""
    fields = Fields("GetFlagsRequest")
    slot = fields.definition_name("slot", message.slot)
    fields.check()
    return slot


def _off(message_name: str, kind: FlagKind, message: Any) -> requests.SwitchFlagOff:
    fields = Fields(message_name)
    version = _version(fields, message)
    asked = steps.header(fields, message.header, requests.SwitchFlagOff, flag=kind, expected_version=version)
    fields.check()
    return asked


def _version(fields: Fields, message: Any) -> int | None:
    if not message.HasField("expected_version"):
        return None
    return fields.count("expected_version", message.expected_version, steps.MOST_REVISION)
