"""Outcomes of calls, and the end of a turn, as parts of facts. Outcomes that settle together become one fact."""

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
        progress: of its child; None if it has none, or it was told before.
        values: of the marks in `progress`.
        frames: what the runner sent to the child.
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
    """Return the outcome of the call at a place, which names its tool as the call does, at the time of its fact."""
    answer, usage, ran, took = outcome.answer, outcome.usage, outcome.child_id is not None, outcome.duration
    tokens: tuple[int, ...] | None = None
    if usage is not None:
        cached, cost = usage.cached_input_tokens, usage.cost
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
        None if ran else outcome.sub_agent_id,
        outcome.attempts,
        None if took is None else took // MICROSECOND,
        tokens,
    )
    components = tuple([(each.name, each.tool_input_json, each.component_data_json) for each in answer.components])
    texts = OutcomeTexts(answer.narration, components, answer.data_unavailable, outcome.hint)
    return SettledCall(call, texts, progress, values, frames)


def settled_together(dispatch_id: DispatchId, calls: Sequence[SettledCall]) -> tuple[CallsSettled, Texts]:
    """Return the fact that several calls have their outcomes, and its texts."""
    body = CallsSettled(
        dispatch_id,
        tuple([each.call for each in calls]),
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
