"""Lay out the end of a turn: every child gets its verdict and is closed, and the routing decision is made.

Nothing here waits or writes.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import COMPLETED_STATUS, PARENT
from sidecar.core.executing.records import CallSettled, Record, TurnEnded
from sidecar.core.executing.states import ExecutionState
from sidecar.core.identifiers import CallId, ChildId
from sidecar.operations.record.ports import Store
from sidecar.operations.requests import Integration, Verdict
from sidecar.operations.turn.child.dependencies import Outside
from sidecar.operations.turn.restore_turn import unfinished_outcomes
from sidecar.operations.turn.settle_child import (
    final_status_of,
    summary_of,
    taking,
)
from sidecar.operations.turn.state.child import Child
from sidecar.operations.turn.state.dispatch_stages import DispatchStage
from sidecar.operations.turn.state.ending import LaidOut, Settling, end_fingerprint
from sidecar.operations.turn.state.live_dispatch import LiveDispatch
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.operations.turn.state.turn_ends import BY_PARENT, EndCause, TurnClosed
from subagents_errors import CallFailure


def routed_calls(dispatch: LiveDispatch, now: datetime, settling: Mapping[CallId, CallOutcome]) -> Iterator[RoutedCall]:
    """Yield what is said of the calls of a dispatch; `now` where nobody knows when one settled.

    Args:
        dispatch: one of the turn's.
        now: when the turn is ended.
        settling: outcomes of a dispatch that has not finished, and of which the end of the turn is the end.
    """
    for place, call in enumerate(dispatch.request.calls):
        outcome = dispatch.calls.outcomes.get(place) or settling[call.call_id]
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


ASSERTED_BY = "orchestrator"
"""The principal is the orchestrator's word over the authenticated listener; verified user tokens come later."""


def lay_out_end(turn: Turn, out: Outside) -> LaidOut:
    """Give every child its verdict, in emission order, and lay out what is to be written. No await in here."""
    now, ended = out.clock.now(), turn.ending.request
    verdicts = {each.child_id: each for each in ended.integrations} if ended else {}
    settling = _unfinished(turn)
    taken = _settle_unfinished(turn, settling, now, out.store)
    children = sorted(turn.children.values(), key=lambda child: child.step_idx)
    for child in children:
        if child.log.state is not ExecutionState.CLOSED:
            _settle(child, verdicts, now, turn.ending.cause)
    routing = _routing(turn, settling, now)
    records: list[Record] = [record for child in children for record in child.take_unsaved()]
    closed = TurnClosed(tuple(summary_of(child) for child in children), routing)
    return LaidOut(closed, (*taken, *turn.late, *records, _turn_ended(turn, now), routing), settling)


def _unfinished(turn: Turn) -> Settling:
    """Return what becomes of the calls that were opened elsewhere and are not going on here."""
    return {
        dispatch.dispatch_id: {
            each.call_id: each for each in unfinished_outcomes(dispatch, turn.children_of(dispatch.dispatch_id))
        }
        for dispatch in turn.dispatches.values()
        if dispatch.stage is not DispatchStage.FINISHED
    }


def _settle_unfinished(turn: Turn, settling: Settling, now: datetime, store: Store) -> list[Record]:
    """Settle them on record; everything of the turn is this process's then."""
    records: list[Record] = []
    for dispatch_id, dispatch in turn.dispatches.items():
        records.extend(taking(dispatch, store, now))
        outcomes = settling.get(dispatch_id, {}).values()
        records.extend(CallSettled(turn.turn_id, dispatch_id, each, now) for each in outcomes)
    for child in turn.children.values():
        child.fail_unfinished(now, CallFailure.TURN_OVER)
    return records


def _routing(turn: Turn, settling: Settling, now: datetime) -> RoutingRecord:
    """Return the turn's routing decision. Source: PC2-FR-15, TN-35."""
    claims, surface, ended = turn.claims, turn.surface, turn.ending.request
    undispatched = ended.declared_intent_count if ended else 0
    dispatched = [dispatch.intents for dispatch in turn.dispatches.values()]
    intents = (*dispatched, *([IntentReport(undispatched, 0, False, False)] if undispatched else ()))
    calls = [
        call
        for dispatch in turn.dispatches.values()
        for call in routed_calls(dispatch, now, settling.get(dispatch.dispatch_id, {}))
    ]
    return RoutingRecord(
        turn_id=turn.turn_id,
        episode_id=claims.episode_id,
        orchestrator_id=surface.orchestrator.definition.id,
        candidates=surface.candidates,
        calls=tuple(sorted(calls, key=lambda call: call.emission_index)),
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


def _settle(child: Child, verdicts: Mapping[ChildId, Integration], now: datetime, cause: EndCause) -> None:
    """Close one child: by the parent's verdict, by default, or because nobody is there to give one."""
    verdict = verdicts.get(child.child_id)
    if cause is not BY_PARENT:
        child.close_unintegrated(now, cause.close_reason, cause.actor)
    elif child.outcome is None:  # brought back from the record, where nobody finished it
        child.close_unintegrated(now, "execution_failed", PARENT)
    elif verdict is None and not child.contract.execution.close_on_completion:
        child.close_unintegrated(now, "turn_ended", PARENT)
    else:
        child.integrate(verdict or Integration(child.child_id, Verdict.AUTOMATIC), now)


def _turn_ended(turn: Turn, now: datetime) -> TurnEnded:
    request = turn.ending.request
    return TurnEnded(
        turn_id=turn.turn_id,
        episode_id=turn.claims.episode_id,
        principal=turn.claims.principal,
        fingerprint=end_fingerprint(request) if request else "",
        narration=request.narration if request else "",
        close_reason=turn.ending.cause.close_reason,
        ended_at=now,
        user_message=request.user_message if request else "",
    )


def _gate_passed(turn: Turn) -> bool:
    """Say whether every dispatch has as many completed children as its join policy asks for. Source: SX-35, TN-23."""
    for dispatch in turn.dispatches.values():
        called = turn.children_of(dispatch.dispatch_id)
        completed = sum(1 for child in called if final_status_of(child) == COMPLETED_STATUS)
        needed = dispatch.request.join.min_success
        if completed < (len(dispatch.plan.run) if needed is None else needed):
            return False
    return True
