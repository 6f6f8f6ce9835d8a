"""The end of a turn as a part of its fact: what no other fact says of its routing decision."""

from collections.abc import Mapping

from msgspec.structs import astuple

from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.facts import Intents, Routed, Routing


def rest_of(routing: RoutingRecord, places: Mapping[DispatchId, Mapping[CallId, int]], digest: str) -> Routing:
    """Return what no other fact says of a routing decision.

    Args:
        routing: of the turn, at the time of its end.
        places: of the calls of each dispatch, in order of acceptance.
        digest: `binding_digest` of the request of the first dispatch; empty if there is none.
    """
    now, undispatched = routing.ended_at, routing.intents[len(places) :]
    calls = [
        Routed(
            dispatch_id,
            of_dispatch[call.call_id],
            (call.settled_at - now) // MICROSECOND,
            None if call.started_at is None else (call.started_at - now) // MICROSECOND,
            call.status_events,
        )
        for dispatch_id, of_dispatch in places.items()
        for call in routing.calls
        if call.dispatch_id == dispatch_id
    ]
    return Routing(
        tuple(calls),
        routing.overhead // MICROSECOND,
        routing.principal_asserted_by,
        routing.gate_passed,
        Intents(*astuple(undispatched[0])) if undispatched else None,
        "" if routing.binding_digest == digest else routing.binding_digest,
    )
