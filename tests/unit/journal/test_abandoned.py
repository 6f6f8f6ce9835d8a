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
from sidecar.core.dispatching.outcomes import CallOutcome, Outcome, Usage
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.executing.events import EFFECT_SENT
from sidecar.core.executing.records import ChildOpened, DispatchOpened
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
from sidecar.core.journal.facts import (
    CallsSettled,
    DelegationSettled,
    DispatchTaken,
    Progress,
    Routed,
    Routing,
    Settlement,
    TurnEnded,
)
from sidecar.core.journal.making.abandoned import Said, closing, log_of, settling
from sidecar.core.journal.marks import ACTORS, Mark, Values, What
from sidecar.core.journal.texts import EndTexts, OutcomeTexts, Texts
from sidecar.core.rollout.serving import CandidateVerdict
from subagents_errors import Axis, CallFailure
from tests.support.recording.event_log import EventLog
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
RUNNING, WAITING, COMPLETED, FAILED, CLOSED = range(5)


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
        claims_json=msgspec.json.encode(fields.pop("claims", CLAIMS)).decode(),
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


def a_child(name: str, dispatch: str, call: str, state: int, parent: str | None = None, step: int = 7) -> StoredChild:
    """Return a child whose log has come so far."""
    opened = ChildOpened(
        child_id=ChildId(name),
        turn_id=TURN,
        episode_id=EPISODE,
        dispatch_id=DispatchId(dispatch),
        call_id=CallId(call),
        slot=Slot("shop"),
        step_idx=step,
        context_json="{}",
        opened_at=OPENED,
        parent_child_id=None if parent is None else ChildId(parent),
    )
    log = EventLog(opened.child_id, TURN, opened.slot, step, opened.link)
    events = [log.created(OPENED, "sha256:1"), log.started(OPENED)]
    if state in {WAITING, COMPLETED}:
        events.append(log.waiting_for_merge(OPENED, "succeeded"))
    if state == COMPLETED:
        events.append(log.integrated(OPENED))
    if state >= FAILED:
        events.append(log.failed(OPENED, "RUNNER_FAILED", "failed"))
    if state == CLOSED:
        events.append(log.closed(OPENED, "execution_failed"))
    return StoredChild(opened, tuple(events))


def test_a_call_is_over_with_its_outcome_or_its_cancellation() -> None:
    """An outcome is found by its emission index, which counts all calls of the turn."""
    half = a_dispatch("d", "a", "b", "c", first=4, outcomes=(not_started("b", 5),))
    half = msgspec.structs.replace(half, cancelled=frozenset({2}))

    assert [half.is_over(place) for place in range(3)] == [False, True, True]
    assert not half.settled


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


def settlement(place: int, outcome: CallOutcome) -> Settlement:
    """Return an outcome as its fact says it."""
    if outcome.child_id is None:
        return Settlement(place, outcome.outcome, outcome.reason)
    return Settlement(place, outcome.outcome, outcome.reason, ran=True, attempts=1, took=300_000_000)


def settled(dispatch: str, calls: list[Settlement], lost: tuple[Progress, ...] = ()) -> Said:
    """Return the fact of outcomes, with children that are lost."""
    texts = Texts(outcomes=(OutcomeTexts(),) * len(calls), values=(LOST,) * len(lost))
    return CallsSettled(DispatchId(dispatch), tuple(calls), lost), texts


LOST: Values = ("SIDECAR_LOST", "sidecar_lost")


def progress(step: int, *whats: What, actor: int = 0, attempts: int = 0) -> Progress:
    """Return what happened to a child now; verdicts have an actor."""
    acted = {What.REJECTED, What.CLOSED}
    return Progress(step, tuple(Mark(what, 0, actor if what in acted else 0) for what in whats), attempts)


def test_a_stored_log_goes_on_where_it_ended() -> None:
    """Same child, step and slot; the next event is the third."""
    child = a_child("k1", "d1", "c1", RUNNING)
    log = log_of(child)
    assert (log.child_id, log.run_id, log.slot, log.step_idx, log.sequence) == ("k1", TURN, "shop", 7, 2)


@requirement("SX-25")
def test_a_lost_dispatch_is_taken_and_every_call_settled_and_no_child_closed() -> None:
    """Running children fail; one that waits for its parent keeps waiting; other dispatches stay."""
    dispatch = a_dispatch("d1", "c1", "c2", "c3", "c4", first=3, outcomes=(told("k0", 5, "c3"),))
    running, other = a_child("k1", "d1", "c1", RUNNING, step=3), a_child("k2", "d1", "c2", RUNNING, step=4)
    waiting = a_child("k3", "d1", "c3", WAITING)
    turn = a_turn([dispatch], running, other, waiting, a_child("k9", "d9", "c1", RUNNING))

    calls = [settlement(0, told("k1")), settlement(1, told("k2")), settlement(3, not_started("c4", 6))]
    assert settling(turn, dispatch, NOW, ME) == [
        (DispatchTaken(DispatchId("d1"), 3), Texts()),
        settled("d1", calls, (progress(3, What.FAILED), progress(4, What.FAILED))),
    ]


def test_an_own_dispatch_is_not_taken_again() -> None:
    """It is ours already."""
    dispatch = a_dispatch("d1", "c1", owner=ME)
    lost = [settled("d1", [settlement(0, not_started("c1", 0))])]
    assert settling(a_turn([dispatch]), dispatch, NOW, ME) == lost


def test_a_call_that_was_cancelled_is_settled_as_that() -> None:
    """Its cancel was acknowledged: whether it ran or waited, it was not the loss of the sidecar that ended it."""
    dispatch = msgspec.structs.replace(a_dispatch("d1", "c1", "c2", owner=ME), cancelled=frozenset({0, 1}))
    [(body, _)] = settling(a_turn([dispatch], a_child("k1", "d1", "c1", RUNNING)), dispatch, NOW, ME)
    assert isinstance(body, CallsSettled)
    assert [(each.outcome, each.reason) for each in body.calls] == [
        (Outcome.FAILED, CallFailure.CALL_CANCELLED),
        (Outcome.NOT_STARTED, CallFailure.CALL_CANCELLED),
    ]


def test_a_delegated_child_is_no_childs_outcome_of_the_call() -> None:
    """It shares the call's id with its parent, which answers for the call."""
    dispatch = a_dispatch("d1", "c1", owner=ME)
    parent, below = a_child("k1", "d1", "c1", RUNNING), a_child("k2", "d1", "c1", RUNNING, parent="k1", step=8)
    assert settling(a_turn([dispatch], parent, below), dispatch, NOW, ME) == [
        (DelegationSettled(DispatchId("d1"), (progress(8, What.FAILED),)), Texts(values=(LOST,))),
        settled("d1", [settlement(0, told("k1"))], (progress(7, What.FAILED),)),
    ]


def with_effect(child: StoredChild) -> StoredChild:
    """Return a running child that sent an effect, whose result is not on record."""
    log = EventLog(child.opened.child_id, TURN, child.opened.slot, child.opened.step_idx, child.opened.link)
    log.go_on_after(child.events)
    sent = log.noted(OPENED, EFFECT_SENT, "an effect was sent", key="ik1-0")
    return msgspec.structs.replace(child, events=(*child.events, sent))


def test_every_delegated_child_that_ran_is_lost_in_one_fact() -> None:
    """Two of them, in the order of the record."""
    dispatch = a_dispatch("d1", "c1", owner=ME)
    parent = a_child("k1", "d1", "c1", RUNNING)
    below = [a_child(f"k{step}", "d1", "c1", RUNNING, parent="k1", step=step) for step in (8, 9)]
    (first, texts), _ = settling(a_turn([dispatch], parent, *below), dispatch, NOW, ME)
    assert first == DelegationSettled(DispatchId("d1"), (progress(8, What.FAILED), progress(9, What.FAILED)))
    assert texts == Texts(values=(LOST, LOST))


def test_the_call_of_a_child_that_waits_for_its_parent_is_lost_without_its_progress() -> None:
    """The child waits on; only the call has an outcome."""
    dispatch = a_dispatch("d1", "c1", owner=ME)
    turn = a_turn([dispatch], a_child("k1", "d1", "c1", WAITING))
    assert settling(turn, dispatch, NOW, ME) == [settled("d1", [settlement(0, told("k1"))])]


@requirement("SX-25")
def test_a_child_with_an_effect_whose_result_is_unknown_is_lost_as_that() -> None:
    """In the event of the child and in the outcome of the call, when the sidecar is lost and when the parent is."""
    unknown, dispatch = CallFailure.EFFECT_UNKNOWN, a_dispatch("d1", "c1", owner=ME, first=3)
    turn = a_turn([dispatch], with_effect(a_child("k1", "d1", "c1", RUNNING, step=3)))
    [(body, texts)] = settling(turn, dispatch, NOW, ME)
    assert isinstance(body, CallsSettled)
    assert [(call.place, call.reason) for call in body.calls] == [(0, unknown)]
    assert texts.values == ((str(unknown), "sidecar_lost"),)

    (body, _), (_, texts) = closing(turn, NOW, ME).said
    assert isinstance(body, CallsSettled)
    assert [(call.place, call.reason) for call in body.calls] == [(0, unknown)]
    assert texts.values == ((str(unknown), "sidecar_lost"), ("parent_lost",))


def test_the_routing_decision_of_a_lost_turn_says_what_its_calls_used() -> None:
    """As their outcomes do."""
    used = Usage(3, 4)
    dispatch = a_dispatch("d1", "c1", owner=ME, outcomes=(told("k1", usage=used),))
    (call,) = closing(a_turn([dispatch], a_child("k1", "d1", "c1", CLOSED)), NOW, ME).routing.calls
    assert call.usage == used


@requirement("SX-26", "SX-31")
@pytest.mark.parametrize(
    ("state", "marks", "values"),
    [
        (RUNNING, (What.FAILED, What.CLOSED), (LOST, ("parent_lost",))),
        (WAITING, (What.REJECTED, What.CLOSED), (("parent_lost",), ("parent_lost",))),
        (COMPLETED, (What.CLOSED,), (("parent_lost",),)),
        (FAILED, (What.CLOSED,), (("parent_lost",),)),
        (CLOSED, (), ()),
    ],
)
def test_a_child_of_a_lost_parent_is_closed_from_every_state(
    state: int, marks: tuple[What, ...], values: tuple[Values, ...]
) -> None:
    """What ran has failed; what waited was not taken; what is closed stays as it is. The sidecar closes, no parent."""
    child = a_child("k1", "d1", "c1", state)
    ((body, texts),) = closing(a_turn([a_dispatch("d1", "c1", outcomes=(told("k1"),), owner=ME)], child), NOW, ME).said
    assert isinstance(body, TurnEnded)
    assert body.progress == ((progress(7, *marks, actor=ACTORS.index("sidecar")),) if marks else ())
    assert texts.values == values


@requirement("SX-31")
def test_a_turn_whose_parent_is_lost_ends_with_everything_settled_and_its_routing_decision() -> None:
    """Two dispatches: one of another sidecar with a lost call, one of this sidecar that is settled."""
    first = a_dispatch("d1", "c1", "c2", outcomes=(told("k0", 1, "c2", duration=None),), cap=CapBehaviour.AT)
    second = a_dispatch("d2", "c3", first=2, owner=ME, outcomes=(not_started("c3", 2),), cap=CapBehaviour.WITHIN)
    closed = closing(a_turn([first, second], a_child("k1", "d1", "c1", RUNNING)), NOW, ME)

    routed_calls = (
        Routed(DispatchId("d1"), 0, 0, -300_000_000),
        Routed(DispatchId("d1"), 1, 0),
        Routed(DispatchId("d2"), 0, 0),
    )
    end = TurnEnded(
        None,
        "parent_lost",
        Routing(routed_calls, 0, "orchestrator", gate_passed=False),
        (progress(7, What.FAILED, What.CLOSED, actor=ACTORS.index("sidecar")),),
    )
    assert closed.said == (
        (DispatchTaken(DispatchId("d1"), 3), Texts()),
        settled("d1", [settlement(0, told("k1"))]),
        (end, Texts(values=(LOST, ("parent_lost",)), end=EndTexts())),
    )
    assert closed.routing == RoutingRecord(
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
        cohort=Cohort("d-1", "b-1", "c-1", ("f",), "treatment", (Slot("shop"), Slot("rewards"))),
        binding_digest="sha256:d1",
        bound_at=OPENED - timedelta(minutes=1),
        ended_at=NOW,
        close_reason="parent_lost",
        overhead=timedelta(0),
        principal_asserted_by="orchestrator",
        gate_passed=False,
    )


def test_a_turn_that_was_bound_again_is_routed_as_it_was_bound_last() -> None:
    """As the record reads it: with the flags of the third dispatch."""
    bound = [msgspec.structs.replace(CLAIMS, flags=(flag,)) for flag in "fgh"]
    dispatches = [a_dispatch(f"d{step}", f"c{step}", first=step, claims=each) for step, each in enumerate(bound)]
    assert closing(a_turn(dispatches), NOW, ME).routing.cohort.active_feature_flags == ("h",)


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
