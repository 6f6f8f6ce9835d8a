"""The state of one dispatch after its facts: its record, its request, and the outcomes of its calls.

The routing decision of a turn is derived from its dispatches, its claims, and values of its end.

Part of `turn_projection`, which a restore and every read of a turn use.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims, cohort_of
from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import Answer, CallOutcome, Component, Usage
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.records import ChildOpened, DispatchOpened
from sidecar.core.identifiers import DefinitionId, DispatchId
from sidecar.core.journal.child_events import MICROSECOND
from sidecar.core.journal.facts import Intents, Routed, Settlement, TurnEnded
from sidecar.core.journal.opening.requests import Request
from sidecar.core.journal.texts import OutcomeTexts
from sidecar.core.rollout.serving import CandidateVerdict


class SettledCall(msgspec.Struct, frozen=True):
    """The valid outcome of one call, and the place of the call in its dispatch."""

    place: int
    outcome: CallOutcome


class DispatchProjection:
    """One dispatch, read fact by fact.

    Attributes:
        opened: the record of the dispatch.
        request: as it was sent, without its token.
        claims: the claims under which it was accepted.
    """

    def __init__(self, opened: DispatchOpened, request: Request, claims: SurfaceClaims) -> None:
        """Begin without outcomes."""
        self.opened, self.request, self.claims = opened, request, claims
        # By place, then by revision.
        self._outcomes: dict[int, dict[int, CallOutcome]] = {}

    def outcome(self, settled: Settlement, texts: OutcomeTexts, row: ChildOpened | None) -> CallOutcome:
        """Return the outcome of a settlement.

        Args:
            settled: the settlement of one of the dispatch's calls.
            texts: of the outcome.
            row: of the call's child; None if it has none.
        """
        call = self.request.calls[settled.place]
        return CallOutcome(
            call_id=call.call_id,
            tool_name=call.tool_name if texts.tool_name is None else texts.tool_name,
            sub_agent_id=settled.slot if row is None else row.slot,
            child_id=None if row is None else row.child_id,
            emission_index=self.opened.first_step + settled.place,
            outcome=settled.outcome,
            reason=settled.reason,
            answer=Answer(
                texts.narration, tuple(Component(*each) for each in texts.components), texts.data_unavailable
            ),
            attempts=settled.attempts,
            duration=None if settled.took is None else settled.took * MICROSECOND,
            usage=None if settled.tokens is None else _usage(*settled.tokens),
            hint=texts.hint,
        )

    def keep(self, settled: Settlement, outcome: CallOutcome) -> None:
        """Add an outcome."""
        # By revision and not by order of arrival: an outcome and its correction may be appended in either order.
        self._outcomes.setdefault(settled.place, {})[settled.revision] = outcome

    def standing(self) -> Iterator[SettledCall]:
        """Yield the valid outcome of each settled call, by place: the one with the highest revision."""
        for place, revisions in sorted(self._outcomes.items()):
            yield SettledCall(place, revisions[max(revisions)])


def routing_of(
    claims: SurfaceClaims, dispatches: Mapping[DispatchId, DispatchProjection], body: TurnEnded, at: datetime
) -> RoutingRecord:
    """Return the routing decision.

    Args:
        claims: of the turn.
        dispatches: with their outcomes. The decision covers the dispatches whose calls the end names, in its order.
        body: the end of the turn.
        at: the time of the end.
    """
    rest = body.routing
    routed = {(each.dispatch_id, each.place): each for each in rest.calls}
    # In the order of the end and not of the facts: the sidecar that ended the turn had accepted the dispatches in this
    # order, and concurrent openings may be recorded in another one.
    known = [dispatches[each] for each in dict.fromkeys(call.dispatch_id for call in rest.calls)]
    calls = [call for dispatch in known for call in _routed(dispatch, routed, at)]
    intents = [each.opened.intents for each in known]
    # Last, as `settling.rest_of` expects it: the reports before it belong to the dispatches, one each.
    if rest.undispatched is not None:
        intents.append(_report(rest.undispatched))
    digests = [each.request.binding_digest for each in known]
    return RoutingRecord(
        turn_id=claims.turn_id,
        episode_id=claims.episode_id,
        orchestrator_id=DefinitionId(claims.orchestrator_id),
        candidates=tuple(Candidate(slot, of, CandidateVerdict(verdict)) for slot, of, verdict in claims.candidates),
        # By the order in which the model made the calls, also across dispatches.
        calls=tuple(sorted(calls, key=lambda call: call.emission_index)),
        intents=tuple(intents),
        fan_out_cap=claims.fan_out_cap,
        cap=worst([each.opened.cap for each in known]),
        cohort=cohort_of(claims),
        # Empty if it equals that of the first dispatch; see `Routing`.
        binding_digest=rest.binding_digest or next(iter(digests), ""),
        bound_at=claims.bound_at,
        ended_at=at,
        close_reason=body.close_reason,
        overhead=rest.overhead * MICROSECOND,
        principal_asserted_by=rest.asserted_by,
        gate_passed=rest.gate_passed,
    )


def _routed(
    dispatch: DispatchProjection, routed: Mapping[tuple[DispatchId, int], Routed], at: datetime
) -> Iterator[RoutedCall]:
    dispatch_id = dispatch.opened.dispatch_id
    for standing in dispatch.standing():
        rest, outcome = routed.get((dispatch_id, standing.place)), standing.outcome
        if rest is None:
            continue  # the call settled after the end was prepared, so the end has no values of it
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
            usage=outcome.usage,
        )


def _usage(read: int, written: int, cached: int | None = None, cost: int | None = None) -> Usage:
    # `read` and `written` are input and output tokens.
    # -1 is written if a cost follows and no cached tokens were reported; see `Settlement.tokens`.
    return Usage(read, written, None if cached == -1 else cached, cost)


def _report(intents: Intents) -> IntentReport:
    return IntentReport(*msgspec.structs.astuple(intents))
