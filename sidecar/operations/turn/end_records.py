"""Prepares the end of a turn: every child gets its verdict and is closed, and the routing decision is built.

`end_turn` calls this when the turn's tasks have ended, and appends the facts that it returns. Nothing here waits or
writes, so no other work of the turn can run between the verdicts and the routing decision.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import AXIS_OF
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import PARENT
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import ChildId
from sidecar.core.journal.entries import Draft
from sidecar.core.journal.facts import TurnEnded
from sidecar.core.journal.making.settling import rest_of, settled_call, settled_together
from sidecar.core.journal.marks import Values
from sidecar.core.journal.texts import EndTexts, Texts
from sidecar.operations.record.ports import Store
from sidecar.operations.requests import Integration, Verdict
from sidecar.operations.turn.child.dependencies import TurnDependencies
from sidecar.operations.turn.restore_turn import unfinished_outcomes
from sidecar.operations.turn.settle_child import summary_of, taking
from sidecar.operations.turn.state.child import UNFINISHED, Child
from sidecar.operations.turn.state.dispatch_stages import DispatchStage
from sidecar.operations.turn.state.ending import EndPlan, Settling, end_fingerprint
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.turn_ends import BY_PARENT, EndCause, TurnClosed
from subagents_errors import CallFailure

ASSERTED_BY = "orchestrator"
"""Who named the principal. The same for a verified principal: its claims say whether a user token proved it."""


IN_EMISSION_ORDER: Final = attrgetter("step_idx")
ROUTED_IN_EMISSION_ORDER: Final = attrgetter("emission_index")


def plan_end(turn: Turn, deps: TurnDependencies) -> EndPlan:
    """Give every child its verdict, in emission order, and prepare the facts of the end.

    There is no await in this function: the facts must describe one state of the turn.
    """
    now, request = deps.clock.now(), turn.ending.request
    verdicts = {each.child_id: each for each in request.integrations} if request else {}
    settling = _unfinished(turn)
    # Before the verdicts: this fails the children without an outcome, and only a child whose work has ended can be
    # closed.
    drafts = _settle_unfinished(turn, settling, now, deps.store)
    children = sorted(turn.children.values(), key=IN_EMISSION_ORDER)
    for child in children:
        if child.log.state is not ExecutionState.CLOSED:
            _close_child(child, verdicts, now, turn.ending.cause)
    routing = _routing(turn, settling, now)
    closed = TurnClosed(tuple([summary_of(child) for child in children]), routing)
    return EndPlan(closed, (*drafts, _turn_ended(turn, children, routing, deps.store)), settling)


def _unfinished(turn: Turn) -> Settling:
    """Return outcomes for the calls of other sidecars that have none and that no process runs any more."""
    return {
        dispatch.dispatch_id: {
            each.call_id: each for each in unfinished_outcomes(dispatch, turn.children_of(dispatch.dispatch_id))
        }
        for dispatch in turn.dispatches.values()
        if dispatch.stage is not DispatchStage.FINISHED
    }


def _settle_unfinished(turn: Turn, settling: Settling, now: datetime, store: Store) -> list[Draft]:
    """Return facts that settle the unfinished calls.

    They take the dispatches over first: the record accepts outcomes only from the owner.
    """
    drafts: list[Draft] = []
    for dispatch_id, dispatch in turn.dispatches.items():
        if dispatch.ownership.owner:
            drafts.extend(taking(dispatch, store, now))
        # After the takeover, so that the record accepts them, and before the outcomes, which follow these facts.
        drafts.extend(turn.in_front(dispatch_id))
        outcomes = settling.get(dispatch_id, {}).values()
        if outcomes:
            places = dispatch.calls.places
            settled = [settled_call(each, places[each.call_id]) for each in outcomes]
            drafts.append(store.draft(turn.turn_id, now, *settled_together(dispatch_id, settled)))
    for child in turn.children.values():
        if child.log.state in UNFINISHED:
            child.fail_unfinished(now, CallFailure.TURN_OVER)
    return drafts


def _routing(turn: Turn, settling: Settling, now: datetime) -> RoutingRecord:
    """Return the turn's routing decision. Source: PC2-FR-15, TN-35."""
    claims, surface, request = turn.claims, turn.surface, turn.ending.request
    undispatched = request.declared_intent_count if request else 0
    dispatched = [dispatch.intents for dispatch in turn.dispatches.values()]
    intents = (*dispatched, *([IntentReport(undispatched, 0, False, False)] if undispatched else ()))
    return RoutingRecord(
        turn_id=turn.turn_id,
        episode_id=claims.episode_id,
        orchestrator_id=surface.orchestrator.definition.id,
        candidates=surface.candidates,
        calls=_routed_calls(turn, settling, now),
        intents=intents,
        fan_out_cap=surface.fan_out_cap,
        cap=worst([dispatch.plan.cap for dispatch in turn.dispatches.values()]),
        cohort=surface.cohort,
        binding_digest=surface.binding_digest,
        bound_at=claims.bound_at,
        ended_at=now,
        close_reason=turn.ending.cause.close_reason,
        overhead=turn.overhead,
        principal_asserted_by=ASSERTED_BY,
        gate_passed=_gate_passed(turn),
    )


def _routed_calls(turn: Turn, settling: Settling, now: datetime) -> tuple[RoutedCall, ...]:
    """Return the routing of each call, in emission order. `now` is the end of a call without a recorded end."""
    calls = []
    for dispatch_id, dispatch in turn.dispatches.items():
        outcomes, unfinished = dispatch.calls.outcomes, settling.get(dispatch_id, {})
        for place, call in enumerate(dispatch.request.calls):
            # An outcome in memory, or one of those that this end records; a call with neither would be a defect.
            outcome = outcomes.get(place) or unfinished[call.call_id]
            child = turn.children.get(outcome.child_id) if outcome.child_id else None
            calls.append(
                RoutedCall(
                    dispatch_id=dispatch_id,
                    call_id=outcome.call_id,
                    sub_agent_id=outcome.sub_agent_id,
                    child_id=outcome.child_id,
                    emission_index=outcome.emission_index,
                    outcome=outcome.outcome,
                    reason=outcome.reason,
                    axis=AXIS_OF[outcome.outcome],
                    started_at=child.started_at if child else None,
                    settled_at=(child.settled_at if child else None) or dispatch.finished_at or now,
                    attempts=outcome.attempts,
                    status_events=child.status_events if child else 0,
                    usage=outcome.usage,
                )
            )
    return tuple(sorted(calls, key=ROUTED_IN_EMISSION_ORDER))


def _close_child(child: Child, verdicts: Mapping[ChildId, Integration], now: datetime, cause: EndCause) -> None:
    """Close one child: by the parent's verdict, by default, or because its parent is lost."""
    verdict = verdicts.get(child.child_id)
    # Without the parent there is no verdict, so a finished child is closed without integration: its result may never
    # have been used.
    if cause is not BY_PARENT:
        child.close_unintegrated(now, cause.close_reason, cause.actor)
    elif child.outcome is None:  # restored from the record, unfinished
        child.close_unintegrated(now, "execution_failed", PARENT)
    elif verdict is None and not child.contract.execution.close_on_completion:
        child.close_unintegrated(now, "turn_ended", PARENT)
    else:
        child.integrate(verdict or Integration(child.child_id, Verdict.AUTOMATIC), now)


def _turn_ended(turn: Turn, children: Sequence[Child], routing: RoutingRecord, store: Store) -> Draft:
    """Return the fact of the end.

    The children keep their events until the fact is confirmed (`take=False`): an end that must be prepared again needs
    them once more.
    """
    request, now, values = turn.ending.request, routing.ended_at, list[Values]()
    claims = None if turn.claims_recorded else turn.unnamed_claims
    digest = next((each.request.binding_digest for each in turn.dispatches.values()), "")
    # All events that no fact has yet: the record refuses an end while a child is open, and their closing events are
    # here.
    progress = [child.progress(now, values, take=False) for child in children if child.waits_for_a_fact]
    body = TurnEnded(
        None if claims is None else claims.claims,
        turn.ending.cause.close_reason,
        rest_of(routing, {each: dispatch.calls.places for each, dispatch in turn.dispatches.items()}, digest),
        tuple(progress),
    )
    end = EndTexts()
    if request is not None:
        end = EndTexts(end_fingerprint(request), request.narration, request.user_message)
    texts = Texts(user=None if claims is None else claims.user, values=tuple(values), end=end)
    return store.draft(turn.turn_id, now, body, texts)


def _gate_passed(turn: Turn) -> bool:
    """Return whether every dispatch has as many completed children as its join policy needs. Source: SX-35, TN-23."""
    completed = dict.fromkeys(turn.dispatches, 0)
    for child in turn.children.values():
        # Delegated children do not count: the gate is about the calls of the orchestrator.
        if child.integrated and child.contract.parent_child_id is None and child.dispatch_id in completed:
            completed[child.dispatch_id] += 1
    for dispatch_id, dispatch in turn.dispatches.items():
        needed = dispatch.request.join.min_success
        if completed[dispatch_id] < (len(dispatch.plan.run) if needed is None else needed):
            return False
    return True
