"""What is written of work whose sidecar or parent is gone: exact rows, from the record alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.abandoned import closing, cohort_of, log_of, settling
from sidecar.core.executing.events import ChildEvent, ChildLog
from sidecar.core.executing.records import CallSettled, ChildOpened, DispatchOpened, DispatchTaken, Record, TurnEnded
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn
from sidecar.core.identifiers import (
    CallId,
    ChildId,
    DefinitionId,
    Digest,
    DispatchId,
    EpisodeId,
    InstanceId,
    Principal,
    Slot,
    TurnId,
)
from sidecar.core.rollout.serving import CandidateVerdict
from subagents_errors import Axis, CallFailure
from tests.support.requirement import requirement

OPENED = datetime(2026, 11, 22, 12, tzinfo=UTC)
NOW = OPENED + timedelta(minutes=5)
TURN, EPISODE, USER = TurnId("t"), EpisodeId("e"), Principal("user-1")
ME, OTHER = InstanceId("me"), InstanceId("other")
CLAIMS = SurfaceClaims(
    turn_id=TURN,
    episode_id=EPISODE,
    principal=USER,
    source="chat",
    locale=None,
    location=None,
    date="2026-11-22",
    orchestrator_digest=Digest("sha256:0"),
    orchestrator_id="concierge",
    tools=((Slot("shop"), Digest("sha256:1")), (Slot("rewards"), Digest("sha256:2"))),
    candidates=((Slot("shop"), DefinitionId("shop"), "chosen"), (Slot("gone"), None, "not_listed")),
    versions=("d-1", "b-1", "c-1"),
    flags=("f",),
    arm="treatment",
    previous=None,
    fan_out_cap=3,
    max_dispatches=4,
    bound_at=OPENED - timedelta(minutes=1),
    expires_at=NOW,
)
CREATED, RUNNING, WAITING, COMPLETED, FAILED, CLOSED = range(6)


def intents(emitted: int) -> IntentReport:
    """Return counts of a response."""
    return IntentReport(declared=emitted, emitted=emitted, switched=False, prior_context_missing=False)


def a_dispatch(name: str, *calls: str, first: int = 0, owner: InstanceId = OTHER, **fields: Any) -> StoredDispatch:
    """Return a dispatch of calls to `ask_shop`, opened by another sidecar."""
    asked = [{"call_id": call, "tool_name": "ask_shop", "arguments_json": "{}"} for call in calls]
    request = msgspec.json.encode({"calls": asked, "binding_digest": f"sha256:{name}"}).decode()
    opened = DispatchOpened(
        turn_id=TURN,
        dispatch_id=DispatchId(name),
        episode_id=EPISODE,
        principal=USER,
        claims_json=msgspec.json.encode(CLAIMS).decode(),
        request_json=request,
        fingerprint="",
        first_step=first,
        places=3,
        calls=len(calls),
        intents=intents(len(calls)),
        cap=fields.pop("cap", CapBehaviour.WITHIN),
        opened_at=OPENED,
        settle_by=NOW,
        turn_expires_at=NOW,
    )
    return StoredDispatch(opened, owner, fields.pop("epoch", 2), owner_alive=False, outcomes=fields.pop("outcomes", ()))


def a_child(name: str, dispatch: str, call: str, state: int, parent: str | None = None) -> StoredChild:
    """Return a child whose log has come so far."""
    opened = ChildOpened(
        child_id=ChildId(name),
        turn_id=TURN,
        episode_id=EPISODE,
        dispatch_id=DispatchId(dispatch),
        call_id=CallId(call),
        slot=Slot("shop"),
        step_idx=7,
        context_json="{}",
        opened_at=OPENED,
        parent_child_id=None if parent is None else ChildId(parent),
    )
    log = ChildLog(opened.child_id, TURN, opened.slot, 7, opened.link)
    events = [log.created(OPENED, "sha256:1")]
    if state >= RUNNING:
        events.append(log.started(OPENED))
    if state in {WAITING, COMPLETED}:
        events.append(log.waiting_for_merge(OPENED, "succeeded"))
    if state == COMPLETED:
        events.append(log.integrated(OPENED))
    if state >= FAILED:
        events.append(log.failed(OPENED, "RUNNER_FAILED", "failed"))
    if state == CLOSED:
        events.append(log.closed(OPENED, "execution_failed"))
    return StoredChild(opened, tuple(events))


def a_turn(dispatches: list[StoredDispatch], *children: StoredChild) -> StoredTurn:
    """Return a turn that nobody ended."""
    return StoredTurn(TURN, tuple(dispatches), children, ended=None, routing=None)


def told(child: str, index: int = 0, call: str = "c1", **fields: Any) -> CallOutcome:
    """Return the outcome of a call whose child was lost."""
    lost = CallOutcome(
        call_id=CallId(call),
        tool_name="ask_shop",
        sub_agent_id=Slot("shop"),
        child_id=ChildId(child),
        emission_index=index,
        outcome=Outcome.FAILED,
        reason=CallFailure.SIDECAR_LOST,
        attempts=1,
        duration=timedelta(minutes=5),
    )
    return msgspec.structs.replace(lost, **fields)


def not_started(call: str, index: int) -> CallOutcome:
    """Return the outcome of a call that has no child."""
    return CallOutcome(
        call_id=CallId(call),
        tool_name="ask_shop",
        sub_agent_id=None,
        child_id=None,
        emission_index=index,
        outcome=Outcome.NOT_STARTED,
        reason=CallFailure.NOT_STARTED,
    )


def settled(dispatch: str, outcome: CallOutcome) -> CallSettled:
    """Return the row of an outcome."""
    return CallSettled(TURN, DispatchId(dispatch), outcome, NOW)


def lost_event(child: StoredChild) -> ChildEvent:
    """Return the next event of a child whose sidecar is gone."""
    return log_of(child).failed(NOW, "SIDECAR_LOST", "failed: its sidecar is gone", detail="sidecar_lost")


def test_a_stored_log_goes_on_where_it_ended() -> None:
    """Same child, step and slot; the next event links to the last one."""
    child = a_child("k1", "d1", "c1", RUNNING)
    log = log_of(child)
    assert (log.child_id, log.run_id, log.slot, log.step_idx, log.sequence) == ("k1", TURN, "shop", 7, 2)
    assert log.failed(NOW, "x", "y").previous_link == child.events[-1].link
    assert log_of(StoredChild(child.opened, ())).link == child.opened.link


@requirement("SX-25")
def test_a_lost_dispatch_is_taken_and_every_call_settled_and_no_child_closed() -> None:
    """Created and running children fail; one that waits for its parent keeps waiting; other dispatches stay."""
    dispatch = a_dispatch("d1", "c1", "c2", "c3", "c4", first=3, outcomes=(told("k0", call="c3"),))
    running, created = a_child("k1", "d1", "c1", RUNNING), a_child("k2", "d1", "c2", CREATED)
    waiting = a_child("k3", "d1", "c3", WAITING)
    turn = a_turn([dispatch], running, created, waiting, a_child("k9", "d9", "c1", RUNNING))

    assert settling(turn, dispatch, NOW, ME) == [
        DispatchTaken(TURN, DispatchId("d1"), 3, NOW),
        lost_event(running),
        lost_event(created),
        settled("d1", told("k1", 3)),
        settled("d1", told("k2", 4, "c2")),
        settled("d1", not_started("c4", 6)),
    ]


def test_an_own_dispatch_is_not_taken_again() -> None:
    """It is ours already."""
    dispatch = a_dispatch("d1", "c1", owner=ME)
    assert settling(a_turn([dispatch]), dispatch, NOW, ME) == [settled("d1", not_started("c1", 0))]


def test_a_delegated_child_is_no_childs_outcome_of_the_call() -> None:
    """It shares the call's id with its parent, which answers for the call."""
    dispatch = a_dispatch("d1", "c1", owner=ME)
    parent, below = a_child("k1", "d1", "c1", RUNNING), a_child("k2", "d1", "c1", RUNNING, parent="k1")
    assert settling(a_turn([dispatch], parent, below), dispatch, NOW, ME) == [
        lost_event(parent),
        lost_event(below),
        settled("d1", told("k1")),
    ]


def closings(child: StoredChild) -> list[Record]:
    """Return what ends one child of a turn whose parent is lost, and nothing else of the turn."""
    turn = a_turn([a_dispatch("d1", "c1", outcomes=(told("k1"),), owner=ME)], child)
    return [each for each in closing(turn, NOW, ME) if isinstance(each, ChildEvent)]


@requirement("SX-26", "SX-31")
@pytest.mark.parametrize("state", [CREATED, RUNNING, WAITING, COMPLETED, FAILED, CLOSED])
def test_a_child_of_a_lost_parent_is_closed_from_every_state(state: int) -> None:
    """What ran has failed; what waited was not taken; what is closed stays as it is."""
    child = a_child("k1", "d1", "c1", state)
    log, expected = log_of(child), list[ChildEvent]()
    if state in {CREATED, RUNNING}:
        expected = [log.failed(NOW, "SIDECAR_LOST", "failed: its sidecar is gone", detail="sidecar_lost")]
    elif state == WAITING:
        expected = [log.integration_failed(NOW, "parent_lost", "sidecar")]
    if state != CLOSED:
        expected.append(log.closed(NOW, "parent_lost", "sidecar"))
    assert closings(child) == expected


@requirement("SX-31")
def test_a_turn_whose_parent_is_lost_ends_with_everything_settled_and_its_routing_decision() -> None:
    """Two dispatches: one of another sidecar with a lost call, one of this sidecar that is settled."""
    first = a_dispatch("d1", "c1", "c2", outcomes=(told("k0", 1, "c2", duration=None),), cap=CapBehaviour.AT)
    second = a_dispatch("d2", "c3", first=2, owner=ME, outcomes=(not_started("c3", 2),), cap=CapBehaviour.WITHIN)
    child = a_child("k1", "d1", "c1", RUNNING)
    log = log_of(child)

    assert closing(a_turn([first, second], child), NOW, ME) == [
        DispatchTaken(TURN, DispatchId("d1"), 3, NOW),
        settled("d1", told("k1")),
        log.failed(NOW, "SIDECAR_LOST", "failed: its sidecar is gone", detail="sidecar_lost"),
        log.closed(NOW, "parent_lost", "sidecar"),
        TurnEnded(TURN, EPISODE, USER, "", "", "parent_lost", NOW),
        RoutingRecord(
            turn_id=TURN,
            episode_id=EPISODE,
            orchestrator_id=DefinitionId("concierge"),
            candidates=(
                Candidate(Slot("shop"), DefinitionId("shop"), CandidateVerdict.CHOSEN),
                Candidate(Slot("gone"), None, CandidateVerdict.NOT_LISTED),
            ),
            calls=(
                routed("d1", told("k1"), OPENED),
                routed("d1", told("k0", 1, "c2"), None),
                routed("d2", not_started("c3", 2), None),
            ),
            intents=(intents(2), intents(1)),
            fan_out_cap=3,
            cap=CapBehaviour.AT,
            cohort=cohort_of(CLAIMS),
            binding_digest="sha256:d1",
            bound_at=OPENED - timedelta(minutes=1),
            ended_at=NOW,
            close_reason="parent_lost",
            overhead=timedelta(0),
            principal_asserted_by="orchestrator",
            gate_passed=False,
        ),
    ]


def routed(dispatch: str, outcome: CallOutcome, started_at: datetime | None) -> RoutedCall:
    """Return the routing decision's line of one call."""
    return RoutedCall(
        dispatch_id=DispatchId(dispatch),
        call_id=outcome.call_id,
        sub_agent_id=outcome.sub_agent_id,
        child_id=outcome.child_id,
        emission_index=outcome.emission_index,
        outcome=outcome.outcome,
        reason=outcome.reason,
        axis=Axis.EXECUTION if outcome.outcome is Outcome.FAILED else Axis.NONE,
        started_at=started_at,
        settled_at=NOW,
        attempts=outcome.attempts,
        status_events=0,
    )


def test_a_dispatch_of_a_turn_is_found_by_its_id_and_settled_with_its_last_call() -> None:
    """An id that the turn does not have is none."""
    one, two = a_dispatch("d1", "c1"), a_dispatch("d2", "c1", outcomes=(told("k1"),))
    turn = a_turn([one, two])
    assert [turn.dispatch(DispatchId(name)) for name in ("d1", "d2", "d3")] == [one, two, None]
    assert (one.settled, two.settled) == (False, True)


def test_the_cohort_of_a_turn_can_be_read_from_its_claims() -> None:
    """Three versions, flags, arm, and the slots that had a tool."""
    slots = (Slot("shop"), Slot("rewards"))
    assert cohort_of(CLAIMS) == Cohort("d-1", "b-1", "c-1", ("f",), "treatment", slots)
