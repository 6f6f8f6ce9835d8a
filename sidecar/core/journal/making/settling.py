"""Converts outcomes of calls, and the end of a turn, to parts of facts.

Outcomes that settle at the same time become one fact, so that a fan-out costs one append and not one for each call.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import astuple

from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.identifiers import CallId, DispatchId
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.entries import AttemptFrames
from sidecar.core.journal.facts import CallsSettled, Intents, Progress, Routed, Routing, Settlement
from sidecar.core.journal.marks import Values
from sidecar.core.journal.texts import OutcomeTexts, Texts


class SettledCall(msgspec.Struct, frozen=True):
    """One outcome, with the end of its child's work.

    Attributes:
        progress: the newest events of its child; None if the call has no child, or an earlier fact has these events.
        values: of the marks in `progress`.
        frames: the frames that the runner sent for the child.
    """

    call: Settlement
    texts: OutcomeTexts
    progress: Progress | None = None
    values: Sequence[Values] = ()
    frames: tuple[AttemptFrames, ...] = ()


def settled_call(
    outcome: CallOutcome,
    place: int,
    *,
    revision: int = 0,
    progress: Progress | None = None,
    values: Sequence[Values] = (),
    frames: tuple[AttemptFrames, ...] = (),
) -> SettledCall:
    """Return the outcome of the call at a place, in the form of facts.

    The result has no tool name, because the call has it, and no time, because the time of its fact applies.
    """
    answer, usage, ran, took = outcome.answer, outcome.usage, outcome.child_id is not None, outcome.duration
    tokens: tuple[int, ...] | None = None
    if usage is not None:
        cached, cost = usage.cached_input_tokens, usage.cost
        # The usual form without a cost; -1 below keeps the place of the cached tokens, so that the cost stays the
        # fourth value.
        tokens = usage.input_tokens, usage.output_tokens, *(() if cached is None else (cached,))
        if cost is not None:
            tokens = usage.input_tokens, usage.output_tokens, -1 if cached is None else cached, cost
    call = Settlement(
        place,
        outcome.outcome,
        outcome.reason,
        0,
        revision,
        ran,
        # The row of the child has the slot.
        None if ran else outcome.sub_agent_id,
        outcome.attempts,
        None if took is None else took // MICROSECOND,
        tokens,
    )
    # Tuples and not `Component`: facts have types of their own, so that a new field there does not change their bytes.
    components = tuple([(each.name, each.tool_input_json, each.component_data_json) for each in answer.components])
    texts = OutcomeTexts(answer.narration, components, answer.data_unavailable, outcome.hint)
    return SettledCall(call, texts, progress, values, frames)


def settled_together(dispatch_id: DispatchId, calls: Sequence[SettledCall]) -> tuple[CallsSettled, Texts]:
    """Return the fact with the outcomes of several calls, and its texts."""
    body = CallsSettled(
        dispatch_id,
        tuple([each.call for each in calls]),
        # The values below follow this order: call after call, mark after mark.
        tuple([each.progress for each in calls if each.progress is not None]),
    )
    values = tuple([value for each in calls for value in each.values])
    return body, Texts(outcomes=tuple([each.texts for each in calls]), values=values)


def rest_of(routing: RoutingRecord, places: Mapping[DispatchId, Mapping[CallId, int]], digest: str) -> Routing:
    """Return the part of a routing decision that no other fact has.

    Args:
        routing: of the turn, at the time of its end.
        places: of the calls of each dispatch, in order of acceptance.
        digest: `binding_digest` of the request of the first dispatch; empty if there is none.
    """
    # There is one report of intents per dispatch; a further one is what the parent declared at the end. Times become
    # offsets from the end, because the fact of the end has its absolute time.
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
