"""The sidecar's first message on a lane."""

from datetime import timedelta

from sidecar.core.session.stalls import Stall
from sidecar.rpc.session.rules import SessionRules, contract
from sidecar.rpc.translate.fields import timestamp
from subagents.dispatch.v1 import dispatch_pb2 as pb


def server_hello(
    rules: SessionRules, instance_id: str, lane_id: str, age: timedelta, stall: Stall | None
) -> pb.SessionResponse:
    """Return the message.

    Args:
        rules: the operator's settings.
        instance_id: of this run of the sidecar.
        lane_id: of this lane.
        age: the age at which the lane is drained.
        stall: the report about the previous lane.
    """
    response = pb.SessionResponse()
    hello = response.hello
    hello.contract.CopyFrom(contract(rules))
    hello.lane_id, hello.instance_id = lane_id, instance_id
    # The client keeps to these limits itself, so that no operation is refused for them.
    hello.max_operations, hello.max_message_bytes = rules.most_operations, rules.message_bytes
    hello.heartbeat_interval.FromTimedelta(rules.heartbeat_interval)
    hello.resume_grace.FromTimedelta(rules.resume_grace)
    hello.max_age.FromTimedelta(age)
    # Repeated with every lane that names the same predecessor: an earlier hello may have been lost.
    if stall is not None:
        report = hello.previous_stall
        report.lane_id, report.dropped_bytes = stall.lane_id, stall.dropped_bytes
        report.stalled_at.CopyFrom(timestamp(stall.time))
        report.correlation_ids.extend(stall.correlation_ids)
    return response
