"""What is written of work whose sidecar, or whose parent, is gone: from the record alone, without the definitions.

Source: SX-25, SX-26, SX-31, TN-97; DESIGN sections 2 and 10.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.decoding import from_json
from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.dispatching.cap import worst
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import SIDECAR, ChildLog
from sidecar.core.executing.records import CallSettled, DispatchTaken, Record, TurnEnded
from sidecar.core.executing.states import ExecutionState
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn
from sidecar.core.identifiers import ChildId, DefinitionId, InstanceId
from sidecar.core.rollout.serving import CandidateVerdict
from subagents_errors import CallFailure

PARENT_LOST = "parent_lost"
SIDECAR_LOST = "sidecar_lost"


class RequestedCalls(msgspec.Struct, frozen=True):
    """What is needed here of a stored request."""

    calls: tuple[ToolCall, ...]
    binding_digest: str = ""


def log_of(child: StoredChild) -> ChildLog:
    """Return the log of a stored child, ready to go on."""
    opened = child.opened
    log = ChildLog(opened.child_id, opened.turn_id, opened.slot, opened.step_idx, opened.link)
    log.go_on_after(child.events)
    return log


def settling(turn: StoredTurn, dispatch: StoredDispatch, now: datetime, me: InstanceId) -> list[Record]:
    """Return what settles every call of a dispatch that nobody goes on with; its children still wait to be closed."""
    records: list[Record] = [*_taking(dispatch, now, me)]
    children = [child for child in turn.children if child.opened.dispatch_id == dispatch.opened.dispatch_id]
    for child in children:
        log = log_of(child)
        if log.state in {ExecutionState.CREATED, ExecutionState.RUNNING}:
            records.append(_lost(log, now))
    outcomes = _lost_outcomes(dispatch, children, now)
    records.extend(CallSettled(turn.turn_id, dispatch.opened.dispatch_id, each, now) for each in outcomes)
    return records


def closing(turn: StoredTurn, now: datetime, me: InstanceId) -> list[Record]:
    """Return what ends a turn whose parent is lost: everything settled, every child closed, the routing decision."""
    records: list[Record] = []
    outcomes: list[tuple[StoredDispatch, CallOutcome]] = []
    for dispatch in turn.dispatches:
        records.extend(_taking(dispatch, now, me))
        children = [child for child in turn.children if child.opened.dispatch_id == dispatch.opened.dispatch_id]
        lost = list(_lost_outcomes(dispatch, children, now))
        outcomes.extend((dispatch, each) for each in (*dispatch.outcomes, *lost))
        records.extend(CallSettled(turn.turn_id, dispatch.opened.dispatch_id, each, now) for each in lost)
        for child in children:
            records.extend(_closing_events(child, now))
    claims = from_json(turn.dispatches[0].opened.claims_json, SurfaceClaims)
    ended = TurnEnded(turn.turn_id, claims.episode_id, claims.principal, "", "", PARENT_LOST, now)
    return [*records, ended, _routing(turn, claims, outcomes, now)]


def _taking(dispatch: StoredDispatch, now: datetime, me: InstanceId) -> Iterator[DispatchTaken]:
    if dispatch.owner != me:
        yield DispatchTaken(dispatch.opened.turn_id, dispatch.opened.dispatch_id, dispatch.epoch + 1, now)


def _closing_events(child: StoredChild, now: datetime) -> Iterator[Record]:
    log = log_of(child)
    if log.state in {ExecutionState.CREATED, ExecutionState.RUNNING}:
        yield _lost(log, now)
    elif log.state is ExecutionState.WAITING_FOR_MERGE:
        yield log.integration_failed(now, PARENT_LOST, SIDECAR)
    if log.state is not ExecutionState.CLOSED:
        yield log.closed(now, PARENT_LOST, SIDECAR)


def _lost(log: ChildLog, now: datetime) -> Record:
    return log.failed(now, CallFailure.SIDECAR_LOST, "failed: its sidecar is gone", detail=SIDECAR_LOST)


def _lost_outcomes(dispatch: StoredDispatch, children: Sequence[StoredChild], now: datetime) -> Iterator[CallOutcome]:
    """Yield an outcome for each call that has none: failed if it has a child, else not started."""
    opened = dispatch.opened
    requested = from_json(opened.request_json, RequestedCalls)
    settled = {each.call_id for each in dispatch.outcomes}
    child_of = {each.opened.call_id: each for each in children if each.opened.parent_child_id is None}
    for place, call in enumerate(requested.calls):
        if call.call_id in settled:
            continue
        child = child_of.get(call.call_id)
        yield CallOutcome(
            call_id=call.call_id,
            tool_name=call.tool_name,
            sub_agent_id=child.opened.slot if child else None,
            child_id=child.opened.child_id if child else None,
            emission_index=opened.first_step + place,
            outcome=Outcome.FAILED if child else Outcome.NOT_STARTED,
            reason=CallFailure.SIDECAR_LOST if child else CallFailure.NOT_STARTED,
            attempts=1 if child else 0,
            duration=now - child.opened.opened_at if child else None,
        )


def _routing(
    turn: StoredTurn, claims: SurfaceClaims, outcomes: Sequence[tuple[StoredDispatch, CallOutcome]], now: datetime
) -> RoutingRecord:
    began: dict[ChildId | None, datetime] = {child.opened.child_id: child.opened.opened_at for child in turn.children}
    calls = [_routed(dispatch, outcome, began, now) for dispatch, outcome in outcomes]
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
        overhead=timedelta(0),
        principal_asserted_by="orchestrator",
        gate_passed=False,
    )


def cohort_of(claims: SurfaceClaims) -> Cohort:
    """Return the cohort that a turn was bound in."""
    return Cohort(
        agent_definition_version=claims.versions[0],
        prompt_block_registry_version=claims.versions[1],
        xml_prompt_component_registry_version=claims.versions[2],
        active_feature_flags=claims.flags,
        experiment_arm_assignment=claims.arm,
        active_sub_agents=tuple(slot for slot, _ in claims.tools),
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
        settled_at=now,
        attempts=outcome.attempts,
        status_events=0,
    )
