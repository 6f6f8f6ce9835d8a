"""The active periods of a definition: the request as plain values, and the answer as a message."""

from collections.abc import Sequence

from sidecar.core.identifiers import DefinitionId, Slot
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.operations.rollout.audit.queries import ActivityQuery, ActivityReport, Period
from sidecar.rpc.translate.fields import Fields, fill_timestamp
from sidecar.rpc.translate.rollouts import LONGEST_PRINCIPAL
from subagents.lifecycle.v1 import activity_pb2 as pb


def active_periods(message: pb.ListActivePeriodsRequest) -> ActivityQuery:
    """Return the query. Raises `InvalidRequest`."""
    fields = Fields("ListActivePeriodsRequest")
    definition_id = DefinitionId(fields.definition_name("definition_id", message.definition_id))
    slot = Slot(fields.definition_name("slot", message.slot)) if message.slot else Slot("")
    key = fields.one_line("principal", message.principal, LONGEST_PRINCIPAL)
    share = fields.count("share_basis_points", message.share_basis_points, WHOLE)
    # Neither names no cohort; both could name two different ones.
    if bool(key) == bool(share):
        fields.refuse("cohort", "name a user in `principal`, or a share of all from 1 in `share_basis_points`")
    fields.check()
    return ActivityQuery(definition_id=definition_id, slot=slot, key=key, share=share)


def activity_message(activity: ActivityReport, periods: Sequence[Period], token: str) -> pb.ListActivePeriodsResponse:
    """Return when it was active: a page of periods, and the token of the next one."""
    shown = [_period(each) for each in periods]
    answer = pb.ListActivePeriodsResponse(slot=activity.slot, periods=shown, next_page_token=token)
    if activity.known_from is not None:
        fill_timestamp(answer.known_from, activity.known_from)
    return answer


def _period(period: Period) -> pb.ActivePeriod:
    message = pb.ActivePeriod(ramp_basis_points=period.ramp, request_id=period.request_id)
    if period.since is not None:
        fill_timestamp(message.started_at, period.since)
    if period.until is not None:
        fill_timestamp(message.ended_at, period.until)
    return message
