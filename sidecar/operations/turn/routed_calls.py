"""One call of a turn, as its routing decision lists it."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutedCall
from sidecar.core.identifiers import CallId
from sidecar.operations.turn.state.live_dispatch import LiveDispatch


def routed_calls(dispatch: LiveDispatch, now: datetime, settling: Mapping[CallId, CallOutcome]) -> Iterator[RoutedCall]:
    """Yield what is said of the calls of a dispatch; `now` where nobody knows when one settled.

    Args:
        dispatch: one of the turn's.
        now: when the turn is ended.
        settling: outcomes of a dispatch that has not finished, and of which the end of the turn is the end.
    """
    for place, call in enumerate(dispatch.request.calls):
        outcome = dispatch.outcomes.get(place) or settling[call.call_id]
        yield _routed(dispatch, outcome, now)


def _routed(dispatch: LiveDispatch, outcome: CallOutcome, now: datetime) -> RoutedCall:
    child = dispatch.turn.children.get(outcome.child_id) if outcome.child_id else None
    return RoutedCall(
        dispatch_id=dispatch.dispatch_id,
        call_id=outcome.call_id,
        sub_agent_id=outcome.sub_agent_id,
        child_id=outcome.child_id,
        emission_index=outcome.emission_index,
        outcome=outcome.outcome,
        reason=outcome.reason,
        axis=outcome.axis,
        started_at=child.started_at if child else None,
        settled_at=(child.settled_at if child else None) or dispatch.finished_at or now,
        attempts=outcome.attempts,
        status_events=child.status_events if child else 0,
    )
