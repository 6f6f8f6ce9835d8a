"""What the verifier says of each alteration of a child, word for word and with its place: auditors work from it."""

import time
from collections.abc import Callable, Iterable
from datetime import timedelta, timezone
from typing import TypeVar

import msgspec
import pytest

from sidecar.core.executing.chain import NOTHING
from sidecar.core.executing.events import ChildEvent
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.executing.records import ChildOpened
from sidecar.core.executing.stored_record import StoredChild, StoredDispatch, StoredTurn
from sidecar.core.executing.verify_child import MOST_PLACES, child_findings, closing_event, turn_findings
from sidecar.core.identifiers import ChildId, InstanceId, TurnId
from tests.support.record_builders import a_child, a_dispatch, a_life, a_log, a_turn_end, an_outcome, moment
from tests.support.requirement import requirement

CHILD = a_child(a_dispatch())
ID = CHILD.child_id
A = InstanceId("a")
Events = list[ChildEvent]
Row = TypeVar("Row", ChildEvent, ChildOpened)


def linked(events: Iterable[ChildEvent]) -> Events:
    """Return the events in this order as if they had been written so: numbers and links are right."""
    done: Events = []
    for event in events:
        link = done[-1].link if done else CHILD.link
        placed = msgspec.structs.replace(event, sequence=len(done) + 1, previous_link=link)
        done.append(msgspec.structs.replace(placed, link=placed.relinked(link)))
    return done


def but(of: Row, **fields: object) -> Row:
    """Return an event or a child's row with some fields replaced."""
    return msgspec.structs.replace(of, **fields)


def renumbered(events: Events) -> Events:
    """Return the events numbered from 1, with the links they had."""
    return [but(event, sequence=place) for place, event in enumerate(events, 1)]


def one(kind: FindingKind, sequence: int, text: str) -> list[Finding]:
    """Return one finding about the child."""
    return [Finding(kind, text, child_id=ID, sequence=sequence)]


K = FindingKind
ALTERED = "was altered: its contents do not give its link"
ONCE = "a child is created once, by its first event"
CREATED, ATTEMPT, WAITING = "agent.subagent_created", "agent.subagent_attempt", "agent.subagent_waiting_for_merge"
ACCEPTED, STARTED, CLOSED = "agent.integration_accepted", "agent.subagent_started", "agent.subagent_closed"


def unlinked(before: int) -> str:
    """Return what is said of an event that does not link to the one before."""
    return f"does not link to event {before}: one between them was left out, or {before} was altered"


@requirement("SX-38", "SX-39")
@pytest.mark.parametrize(
    ("tamper", "findings"),
    [
        (lambda e: e, []),
        (
            lambda e: [],
            one(K.EVENT_MISSING, 1, f"child {ID} has a row and no event at all; each is stored with its first event"),
        ),
        (
            lambda e: [*e[:2], *e[3:]],
            one(K.EVENT_MISSING, 3, f"event 3 of child {ID} missing; the next one there is 4 ({WAITING})"),
        ),
        (
            lambda e: [*e[:2], *e[4:]],
            one(K.EVENT_MISSING, 3, f"events 3 to 4 of child {ID} missing; the next one there is 5 ({ACCEPTED})")
            + one(
                K.ILLEGAL_ORDER, 5, f"event 5 ({ACCEPTED}) of child {ID} is not possible for a child that is running"
            ),
        ),
        (
            lambda e: e[1:],
            one(K.EVENT_MISSING, 1, f"event 1 of child {ID} missing; the next one there is 2 ({STARTED})")
            + one(K.ILLEGAL_ORDER, 2, f"event 2 ({STARTED}) of child {ID}: {ONCE}"),
        ),
        (
            lambda e: renumbered([*e[:2], *e[3:]]),
            one(K.EVENTS_REORDERED, 3, f"event 3 ({WAITING}) of child {ID} is the one that was written as event 4")
            + one(K.EVENTS_REORDERED, 4, f"event 4 ({ACCEPTED}) of child {ID} is the one that was written as event 5")
            + one(K.EVENTS_REORDERED, 5, f"event 5 ({CLOSED}) of child {ID} is the one that was written as event 6"),
        ),
        (
            lambda e: [e[0], but(e[2], sequence=2), but(e[1], sequence=3), *e[3:]],
            one(K.EVENTS_REORDERED, 2, f"event 2 ({ATTEMPT}) of child {ID} is the one that was written as event 3")
            + one(K.EVENTS_REORDERED, 3, f"event 3 ({STARTED}) of child {ID} is the one that was written as event 2"),
        ),
        (lambda e: [*e[:3], *e[2:]], one(K.EVENTS_REORDERED, 3, f"event 3 of child {ID} is there more than once")),
        (
            lambda e: [*e[:2], but(e[2], summary="x"), *e[3:]],
            one(K.EVENT_ALTERED, 3, f"event 3 ({ATTEMPT}) of child {ID} {ALTERED}"),
        ),
        (
            lambda e: [*e[:5], but(e[5], actor="x")],
            one(K.EVENT_ALTERED, 6, f"event 6 ({CLOSED}) of child {ID} {ALTERED}"),
        ),
        (
            lambda e: [*e[:2], relinked(but(e[2], summary="x")), *e[3:]],
            one(
                K.EVENT_MISSING,
                4,
                f"event 4 ({WAITING}) of child {ID} does not link to event 3: "
                "one between them was left out, or 3 was altered",
            ),
        ),
        (
            lambda e: [*e[:2], but(e[2], run_id=TurnId("turn-9")), *e[3:]],
            one(K.EVENT_ALTERED, 3, f"event 3 ({ATTEMPT}) of child {ID} {ALTERED}"),
        ),
        (
            lambda e: [relinked(but(e[0], previous_link=NOTHING))],
            one(
                K.ROW_ALTERED,
                1,
                f"the row of child {ID}, contract included, is not the one that its first event links to",
            ),
        ),
        (
            lambda e: linked([e[0], e[0], e[1]]),
            one(K.ILLEGAL_ORDER, 2, f"event 2 (agent.subagent_created) of child {ID}: {ONCE}"),
        ),
        (
            lambda e: [*e[:2], relinked(but(e[2], previous_link=e[0].link)), *e[3:]],
            one(K.EVENT_MISSING, 3, f"event 3 ({ATTEMPT}) of child {ID} {unlinked(2)}")
            + one(K.EVENT_MISSING, 4, f"event 4 ({WAITING}) of child {ID} {unlinked(3)}"),
        ),
        (
            lambda e: [*e[:2], but(e[2], link=but(e[2], sequence=0).relinked(e[2].previous_link)), *e[3:]],
            one(K.EVENT_ALTERED, 3, f"event 3 ({ATTEMPT}) of child {ID} {ALTERED}")
            + one(K.EVENT_MISSING, 4, f"event 4 ({WAITING}) of child {ID} {unlinked(3)}"),
        ),
        (
            lambda e: [but(e[1], sequence=1), but(e[0], sequence=2)],
            one(K.EVENTS_REORDERED, 1, f"event 1 ({STARTED}) of child {ID} is the one that was written as event 2")
            + one(K.EVENTS_REORDERED, 2, f"event 2 ({CREATED}) of child {ID} is the one that was written as event 1")
            + one(K.ILLEGAL_ORDER, 1, f"event 1 ({STARTED}) of child {ID}: {ONCE}")
            + one(K.ILLEGAL_ORDER, 2, f"event 2 ({CREATED}) of child {ID}: {ONCE}"),
        ),
        (
            lambda e: renumbered([*e[:2], *e[4:]]),
            one(K.EVENTS_REORDERED, 3, f"event 3 ({ACCEPTED}) of child {ID} is the one that was written as event 5")
            + one(K.EVENT_ALTERED, 4, f"event 4 ({CLOSED}) of child {ID} {ALTERED}")
            + one(
                K.ILLEGAL_ORDER, 3, f"event 3 ({ACCEPTED}) of child {ID} is not possible for a child that is running"
            ),
        ),
        (lambda e: linked(e[1:3]), one(K.ILLEGAL_ORDER, 1, f"event 1 ({STARTED}) of child {ID}: {ONCE}")),
        (
            lambda e: linked([*e, e[2], e[1]]),
            one(K.EVENT_AFTER_CLOSED, 7, f"event 7 ({ATTEMPT}) of child {ID} came after the child was closed")
            + one(K.EVENT_AFTER_CLOSED, 8, f"event 8 ({STARTED}) of child {ID} came after the child was closed"),
        ),
        (
            lambda e: linked([e[0], e[3]]),
            one(K.ILLEGAL_ORDER, 2, f"event 2 ({WAITING}) of child {ID} is not possible for a child that is created"),
        ),
    ],
)
def test_a_child_is_found_to_be_exactly_this(tamper: Callable[[Events], Events], findings: list[Finding]) -> None:
    """Six events of a whole life, tampered with."""
    assert list(child_findings(StoredChild(CHILD, tuple(tamper(a_life(CHILD)))))) == findings


def relinked(event: ChildEvent) -> ChildEvent:
    """Return an altered event whose link fits again."""
    return but(event, link=event.relinked(event.previous_link))


@pytest.mark.parametrize("of_row", [True, False])
def test_times_are_judged_in_utc_wherever_machine_and_database_are(
    of_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row's time or the events' in another zone, on a machine in a third one."""
    east = timezone(timedelta(hours=2))
    opened = but(CHILD, opened_at=CHILD.opened_at.astimezone(east)) if of_row else CHILD
    events = [event if of_row else but(event, time=event.time.astimezone(east)) for event in a_life(CHILD)]
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "JST-9")
        time.tzset()
        found = list(child_findings(StoredChild(opened, tuple(events))))
    time.tzset()
    assert found == []


def test_the_own_place_of_a_moved_event_is_looked_for_among_64() -> None:
    """Of a longer log the swap shows all the same, without the place."""
    log = a_log(CHILD)
    life = [log.created(moment(1), "digest"), log.started(moment(1))]
    life += [log.noted(moment(1), "agent.x", str(number)) for number in range(MOST_PLACES - 1)]
    swapped = [*life[:2], but(life[3], sequence=3), but(life[2], sequence=4), *life[4:]]

    def kinds(events: Events) -> list[FindingKind]:
        return [finding.kind for finding in child_findings(StoredChild(CHILD, tuple(events)))]

    assert MOST_PLACES == 64
    assert kinds(swapped[:64]) == [K.EVENTS_REORDERED] * 2
    assert set(kinds(swapped)) == {K.EVENT_ALTERED, K.EVENT_MISSING}


def test_the_event_that_closed_a_child_is_found() -> None:
    """The last of a whole life; none of one that goes on."""
    life = a_life(CHILD)
    assert closing_event(StoredChild(CHILD, tuple(life))) == life[-1]
    assert closing_event(StoredChild(CHILD, tuple(life[:-1]))) is None


def test_a_turn_names_the_children_that_have_to_be_there() -> None:
    """By an outcome, by a delegation, and by its end."""
    below = a_child(a_dispatch(), 1, parent_child_id=ChildId("gone"))
    above = a_child(a_dispatch(), 2, parent_child_id=ID)
    outcomes = (
        an_outcome("c1", child_id=None),
        an_outcome("c2", child_id=ID),
        an_outcome("c3", child_id=ChildId("lost")),
    )
    dispatch = StoredDispatch(a_dispatch(), A, 0, owner_alive=True, outcomes=outcomes)
    children = (
        StoredChild(CHILD, tuple(a_life(CHILD))),
        StoredChild(below, tuple(a_life(below)[:2])),
        StoredChild(above, ()),
    )
    ended = StoredTurn(TurnId("turn-1"), (dispatch,), children, a_turn_end(), None)
    delegated = Finding(
        K.CHILD_REMOVED,
        f"child {below.child_id} was delegated by child gone, which is not there",
        child_id=ChildId("gone"),
    )
    named = Finding(
        K.CHILD_REMOVED,
        "the outcome of call c3 of turn turn-1 names child lost, which is not there",
        child_id=ChildId("lost"),
    )

    def open_one(child_id: ChildId, sequence: int) -> Finding:
        text = f"turn turn-1 has ended, which needs all its children closed, and child {child_id} has no closing event"
        return Finding(K.TAIL_CUT, text, child_id=child_id, sequence=sequence)

    assert list(turn_findings(msgspec.structs.replace(ended, ended=None))) == [named, delegated]
    assert list(turn_findings(ended)) == [named, delegated, open_one(below.child_id, 3), open_one(above.child_id, 1)]
