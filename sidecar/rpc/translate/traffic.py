"""Translates the counters of calls to a message. Imported when an operator first asks."""

from datetime import datetime
from typing import Final

from sidecar.core.dispatching.outcomes import Outcome
from sidecar.operations.process.traffic import ServedCalls, SlotTraffic, Traffic
from sidecar.rpc.translate.enums import OUTCOME
from sidecar.rpc.translate.fields import fill_timestamp
from subagents.admin.v1 import admin_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2

OUTCOMES: Final = frozenset(map(str, Outcome))


def traffic_message(traffic: Traffic, instance: str, now: datetime) -> pb.GetTrafficResponse:
    """Return the counters of a process as they are `now`."""
    message = pb.GetTrafficResponse(
        instance_id=instance,
        calls=map(_calls, traffic.calls),
        slots=[_slot(slot, each) for slot, each in traffic.slots.items()],
        duration_bounds=traffic.bounds,
        limits=[pb.LimitCount(limit=limit, count=count) for limit, count in traffic.limits.items()],
        dispatches=traffic.dispatches,
        most_dispatches=traffic.most_dispatches,
    )
    fill_timestamp(message.read_at, now)
    return message


def _calls(each: ServedCalls) -> pb.CallCount:
    slot, definition_id, arm, outcome, reason = each.labels
    # The metric has a limited number of series and counts further calls as `other`, which is no outcome.
    shown_outcome = OUTCOME[Outcome(outcome)] if outcome in OUTCOMES else outcome_pb2.OUTCOME_UNSPECIFIED
    return pb.CallCount(
        sub_agent_id=slot, definition_id=definition_id, arm=arm, outcome=shown_outcome, reason=reason, count=each.count
    )


def _slot(slot: str, each: SlotTraffic) -> pb.SlotTraffic:
    return pb.SlotTraffic(
        sub_agent_id=slot,
        in_flight=each.in_flight,
        durations=each.durations,
        open_breakers=[pb.OpenBreaker(target=target, half_open=half) for target, half in each.breakers.items()],
    )
