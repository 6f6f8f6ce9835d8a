"""The routing decision of a turn, derived from its claims, its outcomes, and what only its end says."""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.abandoned import cohort_of
from sidecar.core.identifiers import DefinitionId, DispatchId
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.dispatch_reading import DispatchReading
from sidecar.core.journal.facts import Intents, Routed, TurnEnded
from sidecar.core.rollout.serving import CandidateVerdict


def routing_of(
    claims: SurfaceClaims, dispatches: Mapping[DispatchId, DispatchReading], body: TurnEnded, at: datetime
) -> RoutingRecord:
    """Return the routing decision.

    Args:
        claims: what the turn was bound to.
        dispatches: with their outcomes. The decision is about those that the end names calls of, in its order.
        body: the end of the turn.
        at: its time.
    """
    rest = body.routing
    routed = {(each.dispatch_id, each.place): each for each in rest.calls}
    known = [dispatches[each] for each in dict.fromkeys(call.dispatch_id for call in rest.calls)]
    calls = [call for dispatch in known for call in _routed(dispatch, routed, at)]
    intents = [each.opened.intents for each in known]
    if rest.undispatched is not None:
        intents.append(_report(rest.undispatched))
    digests = [each.request.binding_digest for each in known]
    return RoutingRecord(
        turn_id=claims.turn_id,
        episode_id=claims.episode_id,
        orchestrator_id=DefinitionId(claims.orchestrator_id),
        candidates=tuple(Candidate(slot, of, CandidateVerdict(verdict)) for slot, of, verdict in claims.candidates),
        calls=tuple(sorted(calls, key=lambda call: call.emission_index)),
        intents=tuple(intents),
        fan_out_cap=claims.fan_out_cap,
        cap=worst([each.opened.cap for each in known]),
        cohort=cohort_of(claims),
        binding_digest=rest.binding_digest or next(iter(digests), ""),
        bound_at=claims.bound_at,
        ended_at=at,
        close_reason=body.close_reason,
        overhead=rest.overhead * MICROSECOND,
        principal_asserted_by=rest.asserted_by,
        gate_passed=rest.gate_passed,
    )


def _routed(
    dispatch: DispatchReading, routed: Mapping[tuple[DispatchId, int], Routed], at: datetime
) -> Iterator[RoutedCall]:
    dispatch_id = dispatch.opened.dispatch_id
    for standing in dispatch.standing():
        rest, outcome = routed.get((dispatch_id, standing.place)), standing.outcome
        if rest is None:
            continue  # it settled after the end was laid out
        yield RoutedCall(
            dispatch_id=dispatch_id,
            call_id=outcome.call_id,
            sub_agent_id=outcome.sub_agent_id,
            child_id=outcome.child_id,
            emission_index=outcome.emission_index,
            outcome=outcome.outcome,
            reason=outcome.reason,
            axis=outcome.axis,
            started_at=None if rest.started is None else at + rest.started * MICROSECOND,
            settled_at=at + rest.settled * MICROSECOND,
            attempts=outcome.attempts,
            status_events=rest.status_events,
        )


def _report(intents: Intents) -> IntentReport:
    return IntentReport(*msgspec.structs.astuple(intents))
