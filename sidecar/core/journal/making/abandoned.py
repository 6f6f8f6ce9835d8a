"""Creates the facts for work whose sidecar or parent is gone.

`operations/turn/orphans.py` calls this code for turns of dead sidecars. It needs only the record: the definitions of a
turn may have been removed since, and the turn must end nevertheless.

Source: SX-25, SX-26, SX-31, TN-97; DESIGN sections 2 and 10.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims, cohort_of
from sidecar.core.decoding import from_json
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import PARENT_LOST, SIDECAR
from sidecar.core.executing.idempotency import NO_EFFECTS, RecordedEffects, recorded_effects
from sidecar.core.executing.states import ExecutionState
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn
from sidecar.core.identifiers import CallId, ChildId, DefinitionId, InstanceId
from sidecar.core.journal.facts import Body, DelegationSettled, DispatchTaken, Progress, TurnEnded
from sidecar.core.journal.making.child_log import ChildLog
from sidecar.core.journal.making.settling import rest_of, settled_call, settled_together
from sidecar.core.journal.marks import SIDECAR_LOST, Values
from sidecar.core.journal.texts import EndTexts, Texts
from sidecar.core.rollout.serving import CandidateVerdict
from subagents_errors import CallFailure

Said: TypeAlias = tuple[Body, Texts]
"""Body and texts of a fact that is to be appended."""


class RequestedCalls(msgspec.Struct, frozen=True):
    """The fields of a stored request that are needed here."""

    calls: tuple[ToolCall, ...]
    binding_digest: str = ""


class Closing(msgspec.Struct, frozen=True):
    """The end of a turn whose parent is lost: the facts to append, in order, and the routing decision in the last."""

    said: tuple[Said, ...]
    routing: RoutingRecord


def log_of(child: StoredChild) -> ChildLog:
    """Return the log of a stored child, ready to be continued."""
    opened = child.opened
    log = ChildLog(opened.child_id, opened.turn_id, opened.slot, opened.step_idx)
    log.go_on_after(child.events)
    return log


def settling(turn: StoredTurn, dispatch: StoredDispatch, now: datetime, me: InstanceId) -> list[Said]:
    """Return the facts that settle every call of an abandoned dispatch; they do not close its children."""
    said, children = list(_taking(dispatch, me)), _children(turn, dispatch)
    values, failed, below = dict[ChildId, list[Values]](), dict[ChildId, Progress](), list[ChildId]()
    effects = recorded_effects(children)
    for child in children:
        log, child_id = log_of(child), child.opened.child_id
        if log.state is ExecutionState.RUNNING:
            _lose(log, now, effects)
            failed[child_id] = log.progress(now, values.setdefault(child_id, []))
            # A delegated child is no call of the request, so its failure needs a fact of its own.
            below += [child_id] if child.opened.parent_child_id is not None else []
    if below:
        # In the order of the progress below, by which a reader assigns values to marks.
        told = Texts(values=tuple(value for child_id in below for value in values[child_id]))
        said.append((DelegationSettled(dispatch.opened.dispatch_id, tuple(failed[each] for each in below)), told))
    calls = [
        settled_call(
            outcome,
            outcome.emission_index - dispatch.opened.first_step,
            progress=failed.get(outcome.child_id) if outcome.child_id else None,
            values=values.get(outcome.child_id, ()) if outcome.child_id else (),
        )
        for outcome in _lost_outcomes(dispatch, children, now)
    ]
    return [*said, settled_together(dispatch.opened.dispatch_id, calls)]


def closing(turn: StoredTurn, now: datetime, me: InstanceId) -> Closing:
    """Return what ends a turn whose parent is lost: everything settled, every child closed, the routing decision."""
    said, values = list[Said](), list[Values]()
    outcomes: list[tuple[StoredDispatch, CallOutcome]] = []
    for dispatch in turn.dispatches:
        # First: the record accepts the following facts only from the owner of the dispatch.
        said += _taking(dispatch, me)
        # These outcomes are recorded without progress: the fact that ends the turn has the last events of all children.
        lost = list(_lost_outcomes(dispatch, _children(turn, dispatch), now))
        outcomes += [(dispatch, each) for each in (*dispatch.outcomes, *lost)]
        if lost:
            calls = [settled_call(each, each.emission_index - dispatch.opened.first_step) for each in lost]
            said.append(settled_together(dispatch.opened.dispatch_id, calls))
    effects = recorded_effects(turn.children)
    # The children of all dispatches: the record refuses an end while any child is open.
    logs = [_closed(child, now, effects) for child in turn.children]
    progress = tuple(log.progress(now, values) for log in logs if log.waiting)
    # The newest: a turn may have been bound again, and `TurnProjection` reads it as it was bound last.
    claims = from_json(turn.dispatches[-1].opened.claims_json, SurfaceClaims)
    routing = _routing(turn, claims, outcomes, now)
    places = {each.opened.dispatch_id: _places(each) for each in turn.dispatches}
    # No claims: the dispatches have recorded them.
    body = TurnEnded(None, PARENT_LOST, rest_of(routing, places, routing.binding_digest), progress)
    return Closing((*said, (body, Texts(values=tuple(values), end=EndTexts()))), routing)


def _children(turn: StoredTurn, dispatch: StoredDispatch) -> list[StoredChild]:
    return [child for child in turn.children if child.opened.dispatch_id == dispatch.opened.dispatch_id]


def _places(dispatch: StoredDispatch) -> dict[CallId, int]:
    calls = from_json(dispatch.opened.request_json, RequestedCalls).calls
    return {call.call_id: place for place, call in enumerate(calls)}


def _taking(dispatch: StoredDispatch, me: InstanceId) -> Iterator[Said]:
    # The next epoch: of two sidecars that settle the same dispatch, the record accepts one.
    if dispatch.owner != me:
        yield DispatchTaken(dispatch.opened.dispatch_id, dispatch.epoch + 1), Texts()


def _closed(child: StoredChild, now: datetime, effects: Mapping[ChildId, RecordedEffects]) -> ChildLog:
    """Return the log of a child, with what closes it."""
    # Only an accepted or failed child can be closed. No parent will accept an answer that waits, so it is rejected
    # here.
    log = log_of(child)
    if log.state is ExecutionState.RUNNING:
        _lose(log, now, effects)
    elif log.state is ExecutionState.WAITING_FOR_MERGE:
        log.integration_failed(now, PARENT_LOST, SIDECAR)
    if log.state is not ExecutionState.CLOSED:
        log.closed(now, PARENT_LOST, SIDECAR)
    return log


def _lose(log: ChildLog, now: datetime, effects: Mapping[ChildId, RecordedEffects]) -> None:
    log.failed(now, str(_lost_because(effects.get(log.child_id, NO_EFFECTS))), SIDECAR_LOST)


def _lost_because(effects: RecordedEffects) -> CallFailure:
    # An effect without a recorded result may have happened. The parent must not repeat such a call as if nothing had
    # been done.
    return CallFailure.EFFECT_UNKNOWN if effects.unknown else CallFailure.SIDECAR_LOST


def _lost_outcomes(dispatch: StoredDispatch, children: Sequence[StoredChild], now: datetime) -> Iterator[CallOutcome]:
    """Yield an outcome for each call that has none: failed if it has a child, else not started."""
    opened = dispatch.opened
    requested = from_json(opened.request_json, RequestedCalls)
    settled = {each.call_id for each in dispatch.outcomes}
    # Delegated children have the call id of no call in the request.
    child_of = {each.opened.call_id: each for each in children if each.opened.parent_child_id is None}
    effects = recorded_effects(children)
    for place, call in enumerate(requested.calls):
        # Its outcome was recorded by the dead sidecar, and the parent may have received it.
        if call.call_id in settled:
            continue
        child = child_of.get(call.call_id)
        lost = _lost_because(effects.get(child.opened.child_id, NO_EFFECTS)) if child else CallFailure.NOT_STARTED
        # A cancel does not undo an effect: that its result is unknown is what the parent has to learn.
        if place in dispatch.cancelled and lost is not CallFailure.EFFECT_UNKNOWN:
            lost = CallFailure.CALL_CANCELLED
        yield CallOutcome(
            call_id=call.call_id,
            tool_name=call.tool_name,
            sub_agent_id=child.opened.slot if child else None,
            child_id=child.opened.child_id if child else None,
            emission_index=opened.first_step + place,
            outcome=Outcome.FAILED if child else Outcome.NOT_STARTED,
            reason=lost,
            # At least one was made; further ones are in the events of the child.
            attempts=1 if child else 0,
            duration=now - child.opened.opened_at if child else None,
        )


def _routing(
    turn: StoredTurn, claims: SurfaceClaims, outcomes: Sequence[tuple[StoredDispatch, CallOutcome]], now: datetime
) -> RoutingRecord:
    began: dict[ChildId | None, datetime] = {child.opened.child_id: child.opened.opened_at for child in turn.children}
    calls = [_routed(dispatch, outcome, began, now) for dispatch, outcome in outcomes]
    # There is a dispatch: only a dispatch or the end can be the first fact of a turn, and this turn has not ended.
    first = turn.dispatches[0].opened
    return RoutingRecord(
        turn_id=turn.turn_id,
        episode_id=claims.episode_id,
        orchestrator_id=DefinitionId(claims.orchestrator_id),
        candidates=tuple(Candidate(slot, of, CandidateVerdict(verdict)) for slot, of, verdict in claims.candidates),
        calls=tuple(sorted(calls, key=lambda call: call.emission_index)),
        intents=tuple(each.opened.intents for each in turn.dispatches),
        fan_out_cap=claims.fan_out_cap,
        cap=worst([each.opened.cap for each in turn.dispatches]),
        cohort=cohort_of(claims),
        binding_digest=from_json(first.request_json, RequestedCalls).binding_digest,
        bound_at=claims.bound_at,
        ended_at=now,
        close_reason=PARENT_LOST,
        # Unknown: the process that measured it is dead.
        overhead=timedelta(0),
        principal_asserted_by="orchestrator",
        # No parent accepted any result.
        gate_passed=False,
    )


def _routed(
    dispatch: StoredDispatch, outcome: CallOutcome, began: dict[ChildId | None, datetime], now: datetime
) -> RoutedCall:
    return RoutedCall(
        dispatch_id=dispatch.opened.dispatch_id,
        call_id=outcome.call_id,
        sub_agent_id=outcome.sub_agent_id,
        child_id=outcome.child_id,
        emission_index=outcome.emission_index,
        outcome=outcome.outcome,
        reason=outcome.reason,
        axis=outcome.axis,
        started_at=began.get(outcome.child_id),
        # The time of the end, for recorded outcomes too: `StoredDispatch` has no times of outcomes.
        settled_at=now,
        attempts=outcome.attempts,
        # Unknown as well: reports are counted in memory only.
        status_events=0,
        usage=outcome.usage,
    )
